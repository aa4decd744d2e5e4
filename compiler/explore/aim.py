"""What an exploration is for: which points are good enough, by what they are compared, and which need not be compiled for that."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from cnna.compiler.explore.energy import Energy
from cnna.compiler.explore.point import Point
from cnna.compiler.explore.sizes import bram36, dsp48e2, luts, uram288
from cnna.spec.config import Config
from cnna.spec.counts import listed
from cnna.spec.errors import UserError
from cnna.spec.exploring import AXES, COSTS, OBJECTIVES, SPEEDS
from cnna.spec.host_time.end_to_end import TO_ANSWER

SIZES: Mapping[str, Callable[[Config], float]] = {  # what a configuration takes, which nothing need be compiled for
    "dsp": dsp48e2,
    "bram": bram36,
    "uram": uram288,
    "lut": luts,
    "clock": lambda config: config.clock_mhz,
    "port": lambda config: config.ports,
}
FIGURES: Mapping[str, Callable[[Point, Energy], float]] = {
    "ddr": lambda point, energy: point.bytes / point.batch,
    "energy": lambda point, energy: energy.joules(point),
    "bandwidth": lambda point, energy: point.bandwidth,
}
SPEED_NAMES = {
    "fps": "speed to the answer (slow end)",
    "alone": "speed of the accelerator",
    "latency": "time to the answer (slow end)",
}
NAMES = {
    "dsp": "DSP48E2",
    "bram": "BRAM36",
    "uram": "URAM288",
    "lut": "LUTs",
    "clock": "MHz",
    "port": "AXI ports",
    "ddr": "DDR bytes",
    "energy": "energy of a frame",
    "bandwidth": "DDR bandwidth",
}
LEAST = (*SIZES, "bandwidth")  # objectives whose answer is one point: the quickest that takes the least


class Least(NamedTuple):
    """What a point takes at least. seconds: of the accelerator, for a batch. bytes: through DDR, of an image. bandwidth: of the
    DDR, exactly. answered, latency: images a second at most and seconds at least, from picture to answer at the slow end, with the
    host's work; without it they say nothing.
    """

    seconds: float
    batch: int
    bytes: float
    bandwidth: int
    answered: float = inf
    latency: float = 0.0

    @property
    def alone(self) -> float:
        """Images a second of the accelerator at most."""
        return self.batch / self.seconds

    @property
    def fps(self) -> float:
        """Images a second from picture to answer at most."""
        return min(self.alone, self.answered)

    @property
    def late(self) -> float:
        """Seconds from a batch alone to its answer at least."""
        return max(self.seconds, self.latency)


def _plain(value: float) -> str:
    """A number as a user would write it: without an exponent, unless it is beyond all that anything reaches."""
    return f"{value:,.9f}".rstrip("0").rstrip(".") if value < 1e15 else f"{value:g}"


@dataclass(frozen=True)
class Aim:
    """What is wanted. objective: of SPEEDS, then no point of the answer is beaten in it and in all `axes`; or of COSTS, then the
    answer is the least that reaches the targets, or for the others of FIGURES begins with it. target_fps: images a second from
    picture to answer, at the slow end. target_ms: for a batch alone, at the slow end. energy: the constants of that cost.
    ddr_traffic: million bytes through DDR that an image may take. UserError: there is no such objective or axis.
    """

    objective: str = "fps"
    axes: tuple[str, ...] = AXES
    target_fps: float | None = None
    target_ms: float | None = None
    energy: Energy = field(default_factory=Energy)
    ddr_traffic: float | None = None

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise UserError(f"--objective {self.objective}: there is no such one; there are {', '.join(OBJECTIVES)}")
        if not self.axes:
            raise UserError(f"--axes: none is named; there are {', '.join(COSTS)}")
        for axis in self.axes:
            if axis not in COSTS:
                raise UserError(f"--axes {axis}: there is no such axis; there are {', '.join(COSTS)}")
        given = {"--target-fps": self.target_fps, "--target-ms": self.target_ms, "--ddr-traffic": self.ddr_traffic}
        for name, value in given.items():
            if value is not None and not 0 < value < inf:
                raise UserError(f"{name} {value:g}: must be more than 0, and finite")

    def __str__(self) -> str:
        """What the answer is, behind "of ... explored,"."""
        end = " (slow end)" * (self.target_fps is not None or self.target_ms is not None)
        enough = f" of those that reach {self.targets}{end}" if self.given else ""
        if self.objective in SPEEDS:
            costs = listed([NAMES[axis] for axis in dict.fromkeys(self.axes)])
            return f"those that none beats in {SPEED_NAMES[self.objective]}, {costs} at once{enough}"
        if self.objective in LEAST:
            return f"the quickest that takes the least {NAMES[self.objective]}{enough}"
        return f"that of the least {NAMES[self.objective]} first, then quicker ones{enough}"

    @property
    def targets(self) -> str:
        """What must be reached, in words."""
        images = f"image{'s' * (self.target_fps != 1)} a second {TO_ANSWER}"
        fps = [] if self.target_fps is None else [f"{_plain(self.target_fps)} {images}"]
        late = [] if self.target_ms is None else [f"an answer in {_plain(self.target_ms)} ms"]
        moved = [] if self.ddr_traffic is None else [f"at most {_plain(self.ddr_traffic)} MB through DDR an image"]
        return listed(fps + late + moved)

    @property
    def given(self) -> bool:
        """Whether some points are good enough, and others not."""
        return self.target_fps is not None or self.target_ms is not None or self.ddr_traffic is not None

    def speed(self, point: Point) -> float:
        """By which points are compared; more is better."""
        return 1 / point.latency.slow if self.objective == "latency" else point.alone if self.objective == "alone" else point.fps

    def cost(self, point: Point, name: str) -> float:
        """One of COSTS."""
        return SIZES[name](point.config) if name in SIZES else FIGURES[name](point, self.energy)

    def reached(self, point: Point) -> bool:
        """Whether a point is good enough."""
        late = self.target_ms is not None and point.latency.slow * 1e3 > self.target_ms
        moved = self.ddr_traffic is not None and point.bytes > self.ddr_traffic * 1e6 * point.batch
        return not late and not moved and (self.target_fps is None or point.fps >= self.target_fps)

    def ranked(self, points: Iterable[Point]) -> list[Point]:
        """The best first; of points that are equally good the smallest, and then in an order that does not depend on theirs."""

        def place(point: Point) -> tuple[float | str, ...]:
            own = () if self.objective in SPEEDS else (self.cost(point, self.objective),)
            costs = [self.cost(point, axis) for axis in self.axes]
            return (*own, -self.speed(point), *costs, *point.order)

        return sorted(points, key=place)

    def best(self, points: Iterable[Point]) -> list[Point]:
        """Those that are good enough and that no other one matches or beats, the best first. Of equal points it keeps one.

        With one of LEAST it is one, the quickest that takes the least: larger ones need not be compiled, so it would depend on the
        workers, and on what is kept, which of them are known.
        """
        ranked = self.ranked(filter(self.reached, points))
        if self.objective in LEAST:
            return ranked[:1]
        kept: list[tuple[tuple[float, ...], Point]] = []
        for point in ranked:
            costs = self._compared(point)
            if not any(all(a <= b for a, b in zip(other, costs, strict=True)) for other, _ in kept):
                kept.append((costs, point))
        return [point for _, point in kept]

    def _compared(self, point: Point) -> tuple[float, ...]:
        """What a point that is ranked behind another one must have less of, to be kept."""
        if self.objective in SPEEDS:
            return tuple(self.cost(point, axis) for axis in self.axes)
        return (-self.speed(point),)

    def needless(self, config: Config, least: Least, points: Sequence[Point]) -> bool:
        """Whether a point cannot be in the answer, if it takes no less than this."""
        late = self.target_ms is not None and least.late * 1e3 > self.target_ms
        if late or least.fps < (self.target_fps or 0) or least.bytes > (self.ddr_traffic or inf) * 1e6:
            return True
        most = 1 / least.late if self.objective == "latency" else least.alone if self.objective == "alone" else least.fps
        axes = () if "energy" in self.axes else tuple(self._least(axis, config, least) for axis in self.axes)
        reached = [point for point in points if self.reached(point)]
        if self.objective in LEAST:
            own = self._least(self.objective, config, least), -most, axes
            return any((self.cost(point, self.objective), -self.speed(point), self._axes(point, axes)) < own for point in reached)
        if self.objective in COSTS or not axes:
            return False
        return any(self._beats(self._axes(point, axes), self.speed(point), axes, most) for point in reached)

    def _axes(self, point: Point, least: Sequence[float]) -> tuple[float, ...]:
        """The costs of a point, if they are compared with the least of another one."""
        return tuple(self.cost(point, axis) for axis in self.axes) if least else ()

    def _beats(self, costs: Sequence[float], speed: float, least: Sequence[float], most: float) -> bool:
        """Whether a point beats whatever takes no less than `least` and is no quicker than `most`. If all is equal it need not."""
        no_more = speed >= most and all(one <= other for one, other in zip(costs, least, strict=True))
        return no_more and (speed > most or costs != least)

    def _least(self, name: str, config: Config, least: Least) -> float:
        """Of one of COSTS; none is known of energy."""
        return SIZES[name](config) if name in SIZES else least.bytes if name == "ddr" else least.bandwidth
