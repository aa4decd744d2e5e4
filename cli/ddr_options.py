"""`--ddr-bytes-per-cycle` and `--ddr-latency`: another DDR than the one planned on.

For the commands that simulate or predict with one.
"""

import argparse
from collections.abc import Mapping
from typing import Any

from cnna.spec.errors import DataError, UserError
from cnna.spec.planned import PLANNED, DdrSpeed

LIMITS = {"ddr_bytes_per_cycle": (1, 64), "ddr_latency": (1, 10_000)}  # 64: four ports of 16 bytes
FIGURES = DdrSpeed._fields  # of `ddr` in the figures of a run


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds both to a command."""
    parser.add_argument(
        "--ddr-bytes-per-cycle",
        type=int,
        metavar="N",
        help=f"bytes that all AXI ports move a clock (default: {PLANNED.bytes_per_cycle})",
    )
    parser.add_argument(
        "--ddr-latency", type=int, metavar="N", help=f"clocks until a read or write is answered (default: {PLANNED.latency_cycles})"
    )


def given(args: argparse.Namespace) -> dict[str, int]:
    """Those that were given, by option. UserError: a value that no memory here has."""
    found = {name: value for name in LIMITS if (value := getattr(args, name)) is not None}
    for name, value in found.items():
        low, high = LIMITS[name]
        if not low <= value <= high:
            raise UserError(f"--{name.replace('_', '-')} {value}: must be within {low}..{high}")
    return found


def simulated(found: Mapping[str, int]) -> dict[str, int]:
    """The options as settings of the simulated DDR."""
    names = {"ddr_bytes_per_cycle": ("bytes_per_clock",), "ddr_latency": ("latency", "write_latency")}
    return {setting: value for name, value in found.items() for setting in names[name]}


def figures(settings: Mapping[str, int]) -> dict[str, int]:
    """What a run's figures say of its DDR, simulated with these `settings` and the model's own where there are none."""
    from cnna.sim.rtl.ddr import SETTINGS

    whole = {name: default for name, (default, _) in SETTINGS.items()} | dict(settings)
    return dict(zip(FIGURES, (whole["bytes_per_clock"], whole["latency"]), strict=True))


def predicted(found: Mapping[str, int], measured: Mapping[str, Any] | None = None) -> DdrSpeed:
    """The DDR to predict for, as the options have it; what is not given is as in the `measured` run, or as planned.

    DataError: the run's `ddr` is not what a run writes.
    """
    values = dict(zip(LIMITS, PLANNED, strict=True))
    if run := (measured or {}).get("ddr"):
        if not isinstance(run, dict) or not all(
            _is_legal(run.get(figure), name) for name, figure in zip(LIMITS, FIGURES, strict=True)
        ):
            raise DataError(f"ddr is {run}; not what `cnna run --json` writes")
        values = {name: run[figure] for name, figure in zip(LIMITS, FIGURES, strict=True)}
    values |= found
    return DdrSpeed(values["ddr_bytes_per_cycle"], values["ddr_latency"])


def _is_legal(value: Any, name: str) -> bool:
    low, high = LIMITS[name]
    return type(value) is int and low <= value <= high
