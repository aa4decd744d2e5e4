"""Your own cocotb test on the simulated accelerator: `python counter.py +artifact=digits.cnna` builds, runs and checks."""

import sys
from pathlib import Path

import cocotb
import numpy as np

from cnna.sim.testbench import Testbench, run_tests
from cnna.spec.artifact import load


@cocotb.test()
async def stays_within_its_cycles(dut):
    """The network must answer within its cycle budget, and the array must have worked for it."""
    tb, path = Testbench(dut), cocotb.plusargs["artifact"]
    await tb.start()
    await tb.run(path, np.zeros((1, *load(path).manifest["model_inputs"][0]["shape"]), np.float32))
    cycles, active = await tb.counter("CYCLES"), await tb.counter("ARRAY_ACTIVE")
    assert 0 < active < cycles < int(cocotb.plusargs.get("budget", 200_000)), f"{cycles} cycles, {active} at work"


if __name__ == "__main__":
    run_tests("tiny", "counter", Path(__file__).parent, sys.argv[1:])
