"""What the simulator is built from: the generated Verilog, the DSP48E2 model, the testbench, the DDR model and the probes.

Generating takes seconds, so the text is kept in the cache folder under what it is made from: configuration, the hw package's
own sources, and the version of Amaranth.
"""

import hashlib
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from cnna.host.files import make_folder, write_text
from cnna.hw.config import Config
from cnna.sim import tb
from cnna.sim.build import Say
from cnna.sim.cache import prune, use

TOP = "cnna"  # the accelerator's top module, as hw.verilog names it


def sources(config: Config, cache_folder: Path, say: Say, verilog: str | None = None, trace: bool = False) -> dict[str, str]:
    """{file name: text}; `verilog` stands for the accelerator's own, where a test has changed it; `trace` allows waveforms."""
    here = files("cnna.sim")
    names = ["dsp48e2.v", "ddr.cpp", "probes.cpp", *(("trace.cpp", "lz4.h", "zlib.h") if trace else ())]
    texts = {name: (here / name).read_text() for name in names}
    texts["tb.sv"] = tb.text(config, TOP, probes=True, trace=trace)
    return {"accelerator.v": verilog or generated(config, cache_folder, say), **texts}


def generated(config: Config, cache_folder: Path, say: Say) -> str:
    """The accelerator's Verilog, from the cache where it is there. UserError: the cache cannot be written."""
    folder = cache_folder / "verilog"
    make_folder(folder)
    path = folder / f"{_digest(config)}.v"
    if use(path):
        return path.read_text()
    from cnna.hw.verilog import generate

    say(f"generating the Verilog of {config.name}")
    text = generate(config)
    write_text(path, text)
    prune(folder.iterdir())
    return text


def _digest(config: Config) -> str:
    parts = [repr(config), version("amaranth"), version("cnna")]
    for entry in sorted(files("cnna.hw").iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".py"):
            parts += [entry.name, entry.read_text()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
