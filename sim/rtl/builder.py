"""The build itself, as a process: `python -m cnna.sim.rtl.builder TRACE OUT SOURCE... -- FLAG...`; see `build`."""

import sys

from cocotb_tools.runner import get_runner

from cnna.sim.rtl.build import TOP
from cnna.sim.rtl.child import die_with_parent


def main(arguments: list[str]) -> int:
    """Builds `TOP` in the folder OUT; 1 when a tool has failed, which has then said why."""
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
