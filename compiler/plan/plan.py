"""Plans lowered kernels: places, commands and a program. Tries several ways and takes the one with the fewest estimated clocks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from cnna.compiler.cost import cost
from cnna.compiler.lower.kernels import Lowered, Stream, one_by_one
from cnna.compiler.lower.weights import constant_segment
from cnna.compiler.plan.allocate import Allocation, allocate
from cnna.compiler.plan.command import PlanContext, PlannedCommand
from cnna.compiler.plan.emit import emit
from cnna.compiler.plan.hazards import add_waits
from cnna.compiler.plan.schedule import schedule, stream_keys
from cnna.compiler.plan.segment import cuts, segment
from cnna.spec.config import Config
from cnna.spec.errors import ModelError

TRIED = 4  # cuts of a batch that are planned and compared
ABREAST = 2  # images under way at the same time
ABREAST_TRIED = 2  # for so many of the best cuts, ABREAST is compared with one image at a time


@dataclass(frozen=True)
class Way:
    """One way to plan a batch.

    cut: the number of kernels that run image by image; 0 without a batch. abreast: images under way at the same time. apart:
    whether maps that are used together are put into different regions.
    """

    cut: int
    abreast: int = 1
    apart: bool = True


@dataclass(frozen=True, eq=False)
class Plan:
    """A finished program, and the kernels and places from which it was made. clocks: the estimate of the cost model.

    Each phase is a kernel of its own.
    """

    lowered: Lowered
    allocation: Allocation
    commands: list[PlannedCommand]
    program: bytes
    constants: bytes
    way: Way
    clocks: int


def plan(lowered: Lowered, config: Config, name: str) -> Plan:
    """The fastest program found. ModelError: no way fits, for the reasons that `allocate` and `emit` give."""
    streams = [part.stream for kernel in lowered.kernels for part in kernel.parts]
    constants, offsets = constant_segment(streams)
    search = _Search(lowered, config, name, constants, dict(zip(streams, offsets, strict=True)))
    search.attempt(Way(cut) for cut in cuts(lowered, config, TRIED))
    if lowered.kernels and lowered.kernels[0].images[1] > 1:
        best = [made.way.cut for made in search.sorted()[:ABREAST_TRIED]]
        search.attempt(Way(cut, ABREAST) for cut in dict.fromkeys([*best, len(lowered.kernels)]) if cut)
    search.attempt(replace(made.way, apart=False) for made in search.sorted()[:1])
    if not search.found:
        raise search.refused[0]
    return search.sorted()[0]


@dataclass(eq=False)
class _Search:
    """The plans that have been made so far. streams: offsets in `constants`."""

    lowered: Lowered
    config: Config
    name: str
    constants: bytes
    streams: Mapping[Stream, int]
    found: list[Plan] = field(default_factory=list)
    refused: list[ModelError] = field(default_factory=list)

    def attempt(self, ways: Iterable[Way]) -> None:
        """Makes the plan of each way, except for ways that exceed the limits of a command."""
        for way in ways:
            try:
                self.found.append(self._plan(way))
            except ModelError as error:
                self.refused.append(error)

    def sorted(self) -> list[Plan]:
        """The plans, the fastest first. Equal ones keep the order in which they were found."""
        return sorted(self.found, key=lambda made: made.clocks)

    def _plan(self, way: Way) -> Plan:
        cut_up = segment(self.lowered, way.cut, way.abreast, self.config)
        allocation = allocate(cut_up, self.config, self.name, way.apart)
        streams = {(kernel, part): self.streams[cut_up.kernels[kernel].parts[part].stream] for kernel, part in stream_keys(cut_up)}
        plain = schedule(PlanContext(cut_up, allocation, streams, self.config))
        commands = add_waits(plain, allocation.segments, self.config)
        program = emit(commands)
        clocks = cost.total_cycles(cost.timeline(program, self.config))
        apart = replace(cut_up, kernels=tuple(own for kernel in cut_up.kernels for own in one_by_one(kernel)))
        return Plan(apart, allocation, commands, program, self.constants, way, clocks)
