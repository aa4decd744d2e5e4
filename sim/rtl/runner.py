"""Builds or runs a simulator under cocotb's runner in a process of its own: `python -m cnna.sim.rtl.runner build|run|tests ...`."""

import os
import re
import sys
from pathlib import Path

from cocotb_tools import config
from cocotb_tools.runner import get_results, get_runner

from cnna.sim.rtl.build import TOP
from cnna.sim.rtl.lifetime import SIGNALLED, die_with_parent

RESULTS = "results.xml"  # of the tests, in the folder of a run


def build(arguments: list[str]) -> int:
    """Builds `TOP` in the folder OUT. Returns 1 if a tool failed, which has printed why.

    Arguments: TRACE OUT SOURCE... -- FLAG...
    """
    die_with_parent()
    split = arguments.index("--")
    trace, out, *sources = arguments[:split]
    try:
        get_runner("verilator").build(
            sources=sources, hdl_toplevel=TOP, build_dir=out, build_args=arguments[split + 1 :], always=True, waves=trace == "1",
            timescale=("1ns", "1ps"),
        )  # fmt: skip
    except RuntimeError as failed:
        print(failed)
        return 1
    return 0


def run(arguments: list[str]) -> int:
    """Runs the simulator of folder BUILD in folder RUN. Returns 0 if every cocotb test passed; SIGNALLED + N: signal N ended it.

    Arguments: BUILD RUN MODULE +PLUSARG... The server in the simulator ends by itself when its client has ended. So this process
    does not watch its parent: the kernel's signal at a parent's death follows a thread, not a process.
    """
    build_folder, run_folder, module, *plusargs = arguments
    return _simulate(build_folder, Path(run_folder), run_folder, "WARNING", module, plusargs)


def tests(arguments: list[str]) -> int:
    """As `run`, for a user's tests: they work in the folder of this process, and cocotb's log says which have passed."""
    build_folder, run_folder, module, *plusargs = arguments
    return _simulate(build_folder, Path(run_folder), os.getcwd(), "INFO", module, plusargs)


def _simulate(build_folder: str, run_folder: Path, work: str, level: str, module: str, plusargs: list[str]) -> int:
    # The program names the folder of cocotb's libraries of the environment that built it, which may have been removed since.
    libraries = os.pathsep.join(filter(None, (str(config.libs_dir), os.environ.get("LD_LIBRARY_PATH"))))
    try:
        results = get_runner("verilator").test(
            test_module=module, hdl_toplevel=TOP, hdl_toplevel_lang="verilog", build_dir=build_folder, test_dir=work,
            results_xml=str(run_folder.absolute() / RESULTS), plusargs=plusargs,
            extra_env={"COCOTB_LOG_LEVEL": level, "LD_LIBRARY_PATH": libraries},
        )  # fmt: skip
    except RuntimeError as failed:
        if died := re.search(r"return code: -(\d+)", str(failed)):
            return SIGNALLED + int(died[1])
        raise
    return int(get_results(results)[1] != 0)


if __name__ == "__main__":
    sys.exit({"build": build, "run": run, "tests": tests}[sys.argv[1]](sys.argv[2:]))
