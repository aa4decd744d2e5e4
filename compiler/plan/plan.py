"""Plans lowered kernels: places, commands and a program. Tries several ways and takes the one with the fewest estimated clocks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from cnna.compiler.cost import cost
from cnna.compiler.cost.engine_steps import groups_of, kernel_clocks
from cnna.compiler.lower.kernels import ConvKernel, Kernel, Lowered, Stream, VectorKernel, one_by_one, views_of
from cnna.compiler.lower.weights import constant_segment
from cnna.compiler.plan.allocate import Allocation, allocate, streamed_ports
from cnna.compiler.plan.command import PlanContext, PlannedCommand
from cnna.compiler.plan.emit import emit
from cnna.compiler.plan.hazards import add_waits
from cnna.compiler.plan.kernel_order import reordered
from cnna.compiler.plan.schedule import schedule, stream_keys
from cnna.compiler.plan.segment import cuts, segment
from cnna.compiler.plan.tile import Tiling
from cnna.compiler.plan.waves import waves
from cnna.spec.config import Config
from cnna.spec.errors import ModelError

CLOSE = 1.02  # estimates of two programs that differ by less than this do not tell which one is faster
TRIED = 4  # cuts of a batch that are planned and compared
ABREAST = 2  # images under way at the same time
BANDS_MOST = 4  # of a kernel
BAND_GROUPS_LEAST = 48  # of pixels in a band: the weights of a pointwise convolution then come in a quarter of its clocks
WAVE_BANDS = (3, 4)  # into how many bands kernels are cut whose bands are mixed
VECTOR_LEAST = 0.6  # of the array's work: what the vector engine has to do where that is tried
PLANNING = "comparing plans"
LEADERS = 2  # the best plans so far, on which another order, bands and ABREAST are tried


Count = Callable[[int, int, str], None]  # takes how many of how many steps are done, and what they do


@dataclass(frozen=True)
class Way:
    """One way to plan a batch.

    cut: the number of kernels that run image by image; 0 without a batch. abreast: images under way at the same time. reordered:
    whether kernels of one branch fill the waits of another. banded: whether kernels beside the vector engine's run in bands of
    rows. apart: whether maps that are used together are put into different regions. waves: into how many bands kernels are cut, to
    be mixed with those of other layers; 0: they are not.
    """

    cut: int
    abreast: int = 1
    reordered: bool = False
    banded: bool = False
    apart: bool = True
    waves: int = 0


@dataclass(frozen=True, eq=False)
class Plan:
    """A finished program, and the kernels and places from which it was made. clocks: the estimate of the cost model.

    Each phase is a kernel of its own in `lowered`. tilings: of the kernels as they were planned, with all of their phases;
    of a kernel in bands of its own, that of one band.
    """

    lowered: Lowered
    allocation: Allocation
    tilings: Mapping[Kernel, Tiling]
    commands: list[PlannedCommand]
    program: bytes
    constants: bytes
    way: Way
    clocks: int


def finalists(lowered: Lowered, config: Config, name: str, count: Count | None = None) -> list[Plan]:
    """The fastest program found, and those of other kinds whose estimates are so close that they may be faster.

    Kinds differ in the order of the kernels or in bands. count: is told of each plan that was made, of as many as there may be.
    ModelError: no way fits, for the reasons that `allocate` and `emit` give.
    """
    search = _search(lowered, config, name, count)
    search.attempt(Way(cut) for cut in cuts(lowered, config, TRIED))
    if search.in_other_order.kernels != lowered.kernels:
        search.attempt(replace(made.way, reordered=True) for made in search.sorted()[:LEADERS])
    if max(row_bands(lowered, config), default=1) > 1:
        search.attempt(replace(made.way, banded=True) for made in search.sorted()[:LEADERS])
    if lowered.kernels and lowered.kernels[0].images[1] > 1:
        best = [made.way for made in search.sorted()[:LEADERS]]
        search.attempt(replace(way, abreast=ABREAST) for way in dict.fromkeys([*best, Way(len(lowered.kernels))]) if way.cut)
    search.attempt(replace(made.way, apart=False) for made in search.sorted()[:1])
    if not search.found:
        raise search.refused[0]
    kinds: dict[tuple[bool, bool], Plan] = {}
    for made in search.sorted():
        kinds.setdefault((made.way.reordered, made.way.banded), made)
    first, *others = kinds.values()
    return [first, *(made for made in others if made.clocks <= first.clocks * CLOSE)]


def in_waves(lowered: Lowered, config: Config, name: str, cut: int) -> list[Plan]:
    """The best plans in which bands of several layers are mixed, the best estimate first. cut: of the best other plan.

    There is none if the vector engine has too little to do beside the array.
    """
    work = {VectorKernel: 0, ConvKernel: 0}
    for kernel in lowered.kernels:
        work[type(kernel)] += kernel_clocks(kernel, lowered, config)
    if work[VectorKernel] < work[ConvKernel] * VECTOR_LEAST:
        return []
    search = _search(lowered, config, name)
    tried = dict.fromkeys([cut, *cuts(lowered, config, LEADERS)])
    search.attempt(Way(cut, waves=bands) for cut in tried for bands in WAVE_BANDS)
    return search.sorted()[:LEADERS]


def _search(lowered: Lowered, config: Config, name: str, count: Count | None = None) -> "_Search":
    streams = [part.stream for kernel in lowered.kernels for part in kernel.parts]
    constants, offsets = constant_segment(streams)
    return _Search(lowered, config, name, constants, dict(zip(streams, offsets, strict=True)), count)


@dataclass(frozen=True)
class _Planned:
    """A program, and what it was made from: commands without their waits, `plain`, and the sizes of the segments."""

    plain: list[PlannedCommand]
    segments: Mapping[str, int]
    commands: list[PlannedCommand]
    program: bytes
    clocks: int


@dataclass(eq=False)
class _Search:
    """The plans that have been made so far. streams: offsets in `constants`."""

    lowered: Lowered
    config: Config
    name: str
    constants: bytes
    streams: Mapping[Stream, int]
    count: Count | None
    found: list[Plan] = field(default_factory=list)
    refused: list[ModelError] = field(default_factory=list)
    streamed: dict[frozenset[Kernel], set[str]] = field(default_factory=dict)  # `streamed_ports` of kernels in any order
    planned: list[_Planned] = field(default_factory=list)

    @cached_property
    def most(self) -> int:
        """The ways that `finalists` may attempt: the cuts, then the best in another order, in bands, abreast, and not apart."""
        several = bool(self.lowered.kernels) and self.lowered.kernels[0].images[1] > 1
        return len(list(cuts(self.lowered, self.config, TRIED))) + 2 * LEADERS + (LEADERS + 1) * several + 1

    @cached_property
    def in_other_order(self) -> Lowered:
        """The kernels in the order of `kernel_order`."""
        return reordered(self.lowered, self.config)

    def attempt(self, ways: Iterable[Way]) -> None:
        """Makes the plan of each way, except for ways that exceed the limits of a command."""
        for way in ways:
            try:
                self.found.append(self._plan(way))
            except ModelError as error:
                self.refused.append(error)
            if self.count:
                self.count(len(self.found) + len(self.refused), self.most, PLANNING)

    def sorted(self) -> list[Plan]:
        """The plans, the fastest first. Equal ones keep the order in which they were found."""
        return sorted(self.found, key=lambda made: made.clocks)

    def _plan(self, way: Way) -> Plan:
        lowered = self.in_other_order if way.reordered else self.lowered
        cut_up = segment(lowered, way.cut, way.abreast, self.config)
        bands = row_bands(cut_up, self.config) if way.banded and not way.waves else ()
        kernels = frozenset(cut_up.kernels)
        if kernels not in self.streamed:
            self.streamed[kernels] = streamed_ports(cut_up, self.config)
        streamed, whole = self.streamed[kernels], list(cut_up.kernels)
        if way.waves:
            cut_up, whole = waves(cut_up, _near_vector(cut_up.kernels), way.waves, self.config, streamed)
        allocation = allocate(cut_up, self.config, self.name, way.apart, bands, streamed, way.waves > 0)
        streams = {(kernel, part): self.streams[cut_up.kernels[kernel].parts[part].stream] for kernel, part in stream_keys(cut_up)}
        plain = schedule(PlanContext(cut_up, allocation, streams, self.config))
        made = self._programmed(plain, allocation.segments)
        apart = replace(cut_up, kernels=tuple(own for kernel in cut_up.kernels for own in one_by_one(kernel)))
        tilings = dict(zip(whole, allocation.tilings, strict=True))
        return Plan(apart, allocation, tilings, made.commands, made.program, self.constants, way, made.clocks)

    def _programmed(self, plain: list[PlannedCommand], segments: Mapping[str, int]) -> _Planned:
        """The program of commands without their waits. Ways that differ may have the same commands, so it is made once."""
        for made in self.planned:
            if made.plain == plain and made.segments == segments:
                return made
        commands = add_waits(plain, segments, self.config)
        program = emit(commands)
        made = _Planned(plain, segments, commands, program, cost.total_cycles(cost.timeline(program, self.config)))
        self.planned.append(made)
        return made


def row_bands(lowered: Lowered, config: Config) -> tuple[int, ...]:
    """For each kernel, the number of bands of rows in which it may run although all of its maps lie on chip; 1: as a whole.

    A kernel of the vector engine follows the array chunk by chunk, but the layer behind it reads all channels. So the array would
    wait for the vector engine at the end of every depthwise layer or pool. In bands, that layer begins on the first rows while the
    vector engine still works on the others. Each band of a convolution brings the weights again, so kernels of few pixels stay
    whole.
    """
    near = _near_vector(lowered.kernels)
    return tuple(_bands(kernel, lowered, config) if number in near else 1 for number, kernel in enumerate(lowered.kernels))


def _near_vector(kernels: Sequence[Kernel]) -> set[int]:
    """The vector engine's kernels that stand between layers of the array, and these layers."""
    found: set[int] = set()
    for number, kernel in enumerate(kernels):
        if not isinstance(kernel, VectorKernel):
            continue
        read = {view.map for role, view in views_of(kernel).items() if role != "dest"}
        before = {n for n, other in enumerate(kernels[:number]) if other.dest.map in read}
        after = {
            n
            for n, other in enumerate(kernels[number:], number)
            if isinstance(other, ConvKernel) and other.source.map == kernel.dest.map
        }
        if before and after:
            found |= {number} | before | after
    return found


def _bands(kernel: Kernel, lowered: Lowered, config: Config) -> int:
    """The most bands that are long enough."""
    groups, height = groups_of(lowered.pixels(kernel), config), lowered.maps[kernel.dest.map].height
    return max(1, min(BANDS_MOST, groups // BAND_GROUPS_LEAST, height))
