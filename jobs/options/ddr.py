"""Which DDR is simulated or predicted with: its bytes a clock and its latency, or a road to it that has a name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cnna.jobs.options.arguments import check_fields
from cnna.spec.config import Config
from cnna.spec.ddr import ROADS, DdrSpeed
from cnna.spec.errors import DataError, UserError

DDR_LIMITS = {"ddr_bytes_per_cycle": (1, 64), "ddr_latency": (1, 10_000)}  # limits of the options; 64: four ports of 16 bytes
DDR_FIGURES = DdrSpeed._fields  # the entries of `ddr` in a run's figures


@dataclass(frozen=True)
class Ddr:
    """Another DDR than the board's; what is None is as on the board.

    bytes_per_cycle: that all ports move together in a clock. latency: clocks until it answers. road: "plain", or one with ports,
    rows and refresh of its own, such as "zcu102-ps"; mts: its million transfers a second. ArgumentError: one is of a wrong kind.
    """

    bytes_per_cycle: int | None = None
    latency: int | None = None
    road: str | None = None
    mts: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def given(self) -> dict[str, int]:
        """The numbers that are given, by the name of their option. UserError: no memory here has such a value."""
        both = zip(DDR_LIMITS, (self.bytes_per_cycle, self.latency), strict=True)
        found = {name: value for name, value in both if value is not None}
        for name, value in found.items():
            low, high = DDR_LIMITS[name]
            if not low <= value <= high:
                raise UserError(f"--{name.replace('_', '-')} {value}: must be within {low}..{high}")
        return found

    def named(self) -> tuple[str, int] | None:
        """The road, and its million transfers a second; None: none is named. UserError: it has no use for what is given."""
        if self.road is not None and self.road not in ROADS:
            raise UserError(f"--ddr {self.road}: there is no such road; there are {', '.join(ROADS)}")
        if self.mts is not None and self.mts not in ROADS[self.road or "plain"].planned:
            raise UserError(f"--ddr-mts is for --ddr zcu102-ps and zcu102-ps-rev1.1{f', not {self.road}' if self.road else ''}")
        if self.road is None:
            return None
        if self.road != "plain" and self.bytes_per_cycle is not None:
            raise UserError(f"--ddr-bytes-per-cycle is for --ddr plain; what {self.road} moves follows from its DDR4")
        return self.road, self.mts or next(iter(ROADS[self.road].planned))

    def simulated(self) -> dict[str, int]:
        """All of it as settings of the simulated DDR, for the option `ddr` of a session. UserError: as of the others."""
        name, mts = self.named() or ("plain", 0)
        road = {} if name == "plain" else {"road": ROADS[name].number, "mts": mts}
        names = {"ddr_bytes_per_cycle": ("bytes_per_clock",), "ddr_latency": ("latency", "write_latency")}
        return {**road, **{setting: value for name, value in self.given().items() for setting in names[name]}}

    def predicted(self, own: DdrSpeed, measured: Mapping[str, Any] | None = None, ports: int = 4) -> DdrSpeed:
        """`predicted_ddr` with it."""
        return predicted_ddr(self.given(), own, measured, self.named(), ports)


def ddr_figures(settings: Mapping[str, int], config: Config) -> dict[str, int | str]:
    """What a run's figures say of its DDR: these `settings`, and the board's own values where there are none.

    A road other than the plain one has its name and speed, and the bytes a clock that are planned for it.
    """
    from cnna.sim.rtl.linked_models import SETTINGS, board_settings

    whole = {name: default for name, (default, _) in SETTINGS.items()} | board_settings(config) | dict(settings)
    for name, road in ROADS.items():
        if road.number == whole["road"] != 0:
            planned = dict(zip(DDR_FIGURES, (road.planned[whole["mts"]], whole["latency"]), strict=True))
            return {"road": name, "mts": whole["mts"], **planned}
    return dict(zip(DDR_FIGURES, (whole["bytes_per_clock"], whole["latency"]), strict=True))


def predicted_ddr(
    found: Mapping[str, int],
    own: DdrSpeed,
    measured: Mapping[str, Any] | None = None,
    road: tuple[str, int] | None = None,
    ports: int = 4,
) -> DdrSpeed:
    """The DDR to predict for. What the options leave open is as in the `measured` run, or else as the board's `own`.

    road: as `named_road` gives it. ports: of the accelerator. DataError: the run's `ddr` is not what a run writes.
    """
    values = dict(zip(DDR_LIMITS, own, strict=True))
    if run := (measured or {}).get("ddr"):
        if not isinstance(run, dict) or not _is_written(run):
            raise DataError(f"ddr is {run}, which is not what `cnna run --json` writes")
        values = {name: run[figure] for name, figure in zip(DDR_LIMITS, DDR_FIGURES, strict=True)}
        if road is None and "road" in run and "ddr_bytes_per_cycle" not in found:
            road = run["road"], run["mts"]
        elif road == ("plain", 0) and "road" in run:
            values["ddr_bytes_per_cycle"] = own.bytes_per_cycle
    values |= found
    if road and road[0] != "plain":
        return ROADS[road[0]].speed(road[1], values["ddr_latency"], ports)
    return DdrSpeed(values["ddr_bytes_per_cycle"], values["ddr_latency"])


def _is_written(run: Mapping[str, Any]) -> bool:
    """Whether these entries of a run's `ddr` are such as `ddr_figures` makes."""
    name, mts = run.get("road", "plain"), run.get("mts", 0)
    if not (type(name) is str and name in ROADS and type(mts) is int and mts in ROADS[name].planned):
        return False
    return all(_is_legal(run.get(figure), name) for name, figure in zip(DDR_LIMITS, DDR_FIGURES, strict=True))


def _is_legal(value: Any, name: str) -> bool:
    low, high = DDR_LIMITS[name]
    return type(value) is int and low <= value <= high
