"""Your own cocotb test on the simulated accelerator. `python counter.py +artifact=digits.cnna` builds, runs and checks.

docs/howto/cocotb.md makes the artifact and goes through it line by line. `+budget=CLOCKS` is the test's own, and
`--trace wave.fst` writes a waveform.
"""

import argparse
import sys
from pathlib import Path

import cocotb
import numpy as np

from cnna.sim.testbench import Testbench, run_tests
from cnna.spec.artifact import load
from cnna.spec.errors import CnnaError


@cocotb.test()
async def stays_within_its_cycles(dut):
    """The network must answer within its cycle budget, and the array must have worked for it."""
    tb, path = Testbench(dut), cocotb.plusargs.get("artifact", "digits.cnna")
    await tb.start()
    await tb.run(path, np.zeros((1, *load(path).manifest["model_inputs"][0]["shape"]), np.float32))
    cycles, active = await tb.counter("CYCLES"), await tb.counter("ARRAY_ACTIVE")
    print(f"{cycles:,} cycles, {active:,} at work")
    budget = int(cocotb.plusargs.get("budget", 200_000))
    assert 0 < active < cycles < budget, f"{cycles} cycles, {active} at work, and the budget is {budget}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("plusargs", nargs="*", metavar="+NAME=VALUE", help="what the test reads as cocotb.plusargs")
    parser.add_argument("--trace", type=Path, metavar="F.fst", help="write a waveform")
    args = parser.parse_args()
    try:
        run_tests("tiny", "counter", Path(__file__).parent, args.plusargs, trace=args.trace)
    except CnnaError as error:
        sys.exit(f"counter: {error}")
