"""What the simulator is built from: the generated Verilog, the DSP48E2 model, the testbench, the DDR model and the probes."""

from importlib.resources import files

from cnna.hw.config import Config
from cnna.sim import tb


def sources(config: Config, verilog: str | None = None) -> dict[str, str]:
    """{file name: text}; `verilog` stands for the accelerator's own, where a test has changed it."""
    from cnna.hw.verilog import TOP, generate

    here = files("cnna.sim")
    texts = {name: (here / name).read_text() for name in ("dsp48e2.v", "ddr.cpp", "probes.cpp")}
    return {"accelerator.v": verilog or generate(config), **texts, "tb.sv": tb.text(config, TOP, probes=True)}
