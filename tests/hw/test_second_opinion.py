"""The buses against cocotbext-axi: an AXI4 memory and an AXI4-Lite master that this project did not write.

The accelerator is complete except for its compute engines, which would only slow the build of the simulator.
"""

import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from amaranth import Module

from cnna.hw import top
from cnna.hw.array.conv import Conv
from cnna.hw.axi.buses import Axi4, Axi4Lite
from cnna.hw.vector.vector import Vector
from cnna.hw.verilog import writer
from cnna.sim.rtl import testbench_top
from cnna.sim.rtl.build import build, to_stderr
from cnna.spec.config import Config
from cnna.spec.files import default_cache

CONFIG = Config("copy", pix=2, ci=4, co=8, ports=2, regions=1, bank_words=128, ring_words=64, vector_ring_words=256)
RUN_SECONDS = 300


class IdleConv(Conv):
    """A convolution engine that does nothing."""

    def elaborate(self, platform: object) -> Module:
        return Module()


class IdleVector(Vector):
    """A vector engine that does nothing."""

    def elaborate(self, platform: object) -> Module:
        return Module()


def wrapper() -> str:
    """The module `tb` with the accelerator in it and every port a public signal; cocotbext-axi wants IDs too."""
    buses = {"s_axi_control": Axi4Lite().flip().members} | {f"m_axi_gmem{port}": Axi4().members for port in range(CONFIG.ports)}
    lines = ["`timescale 1ns / 1ps", "module tb;"]
    wires = [("aclk", 1, True), ("aresetn", 1, True)]
    for bus, members in buses.items():
        wires += [(f"{bus}_{name}", member.shape, member.flow.name == "In") for name, member in members.items()]
    ports = [name for name, _, _ in wires]
    for port in range(CONFIG.ports):
        wires += [(f"m_axi_gmem{port}_{name}", 1, True) for name in ("bid", "rid")]
        lines += [f"  reg m_axi_gmem{port}_{name} /* verilator public_flat_rw */ = 0;" for name in ("awid", "arid")]
    for name, bits, driven in wires:
        lines.append(f"  {'reg' if driven else 'wire'} [{bits - 1}:0] {name} /* verilator public_flat_rw */{' = 0' * driven};")
    lines += ["  wire aclk2x;", *testbench_top.doubled("aclk", "aclk2x")]
    connections = ", ".join(f".{name}({name})" for name in (*ports, "aclk2x"))
    return "\n".join([*lines, f"  {writer.TOP} dut ({connections}, .interrupt());", "endmodule", ""])


@pytest.mark.cosim
@pytest.mark.usefixtures("quick_build")
def test_cocotbext_axi_agrees(tmp_path, monkeypatch):
    """Only our own memory models would accept a handshake, strobe, burst or response of ours."""
    monkeypatch.setattr(top, "Conv", IdleConv)
    monkeypatch.setattr(top, "Vector", IdleVector)
    model = (files("cnna.sim.rtl") / "dsp48e2.v").read_text()
    sources = {"accelerator.v": writer.generate(CONFIG), "dsp48e2.v": model, "tb.sv": wrapper()}
    built = build(sources, default_cache(), False, to_stderr)
    command = [sys.executable, "-m", "cnna.sim.rtl.runner", "run", str(built), str(tmp_path), "second_opinion"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "COCOTB_RANDOM_SEED": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=RUN_SECONDS, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
