"""The sources of the simulator: the generated Verilog, the DSP48E2 model, the testbench, the DDR model and the probes.

Generating the Verilog takes seconds. So the cache folder keeps it, under a digest of the configuration, the sources of the hw
package and the version of Amaranth.
"""

import hashlib
import time
from importlib.metadata import version
from importlib.resources import files
from math import inf
from pathlib import Path

from cnna.sim.rtl import testbench_top
from cnna.sim.rtl.build import COMPRESSION, STAGE_SECONDS, Say
from cnna.sim.rtl.cache import private, prune, use
from cnna.sim.rtl.generate import Tick, generate_from_disk
from cnna.spec.config import Config
from cnna.spec.files import write_text

DDR_PARTS = ("channel", "parts", "plain", "ports", "road", "slave")
DDR = ("ddr.cpp", *(f"ddr_{part}.h" for part in DDR_PARTS))  # the DDR model; DPI-C is in the first file
TOP = "cnna"  # the accelerator's top module, as hw.verilog names it


def sources(config: Config, cache_folder: Path, say: Say, verilog: str | None = None, trace: bool = False) -> dict[str, str]:
    """The sources, {file name: text}.

    verilog: replaces the accelerator's own Verilog, for a test that changes it. trace: whether waveforms can be written.
    """
    here = files("cnna.sim.rtl")
    names = ["dsp48e2.v", *DDR, "probes.cpp", *(("trace.cpp", *COMPRESSION) if trace else ())]
    names += ["packets.cpp"] if config.streams else []
    texts = {name: (here / name).read_text() for name in names}
    texts["tb.sv"] = testbench_top.text(config, TOP, probes=True, trace=trace)
    return {"accelerator.v": verilog or generated(config, cache_folder, say), **texts}


def generated(config: Config, cache_folder: Path, say: Say) -> str:
    """The accelerator's Verilog, from the cache if it is there; else `say` is told. Errors: as `kept`."""
    said = -inf

    def tick(left: float | None) -> None:
        nonlocal said
        now = time.monotonic()
        if said == -inf or (left is not None and now - said >= STAGE_SECONDS):
            said = now
            say(generating(config, left))

    return kept(config, cache_folder, tick)


def generating(config: Config, left: float | None) -> str:
    """What is said while Verilog is generated. left: seconds, where they are known."""
    return f"generating the Verilog of {config.name}" + ("" if left is None else f", about {left:.0f} s left")


def kept(config: Config, cache_folder: Path, tick: Tick) -> str:
    """The accelerator's Verilog, from the cache if it is there; `tick` is called at once and every second while it is generated.

    UserError: the cache cannot be written. RunError: generating failed.
    """
    folder = private(private(cache_folder) / "verilog")
    path = folder / f"{digest(config)}.v"
    if use(path):
        return path.read_text()
    text = generate_from_disk(config, tick)
    write_text(path, text)
    prune(folder.iterdir())
    return text


def digest(config: Config) -> str:
    """Names the Verilog of a configuration, without making it: of all that it follows from."""
    parts = [repr(config), version("amaranth"), version("cnna")]
    for package in ("cnna.hw", "cnna.spec"):
        folder = Path(str(files(package)))
        for path in sorted(folder.rglob("*.py")):
            parts += [path.relative_to(folder).as_posix(), path.read_text()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
