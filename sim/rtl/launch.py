"""Runs a built simulator under cocotb's runner, as a process: `python -m cnna.sim.rtl.launch BUILD RUN MODULE +PLUSARG...`.

The test's verdict is this process's exit code. The server in the simulator ends by itself when its client has gone, whoever it was
that started this (the kernel's parent-death signal would follow a thread, not a process).
"""

import sys
from pathlib import Path

from cocotb_tools.runner import get_results, get_runner

from cnna.sim.rtl.build import TOP


def main(arguments: list[str]) -> int:
    """0 when every cocotb test of the module passed."""
    build_folder, run_folder, module, *plusargs = arguments
    results = get_runner("verilator").test(
        test_module=module, hdl_toplevel=TOP, hdl_toplevel_lang="verilog", build_dir=build_folder, test_dir=run_folder,
        results_xml=str(Path(run_folder).absolute() / "results.xml"), plusargs=plusargs,
        extra_env={"COCOTB_LOG_LEVEL": "WARNING"},
    )  # fmt: skip
    return int(get_results(results)[1] != 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
