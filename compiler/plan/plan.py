"""Plans lowered kernels in one way: places, commands and a program. `choose` says which ways are tried, and takes one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from cnna.compiler.cost import cost
from cnna.compiler.lower.kernels import ConvPart, Kernel, Lowered, Stream, one_by_one
from cnna.compiler.lower.weights import ConstantSegment, constant_segment
from cnna.compiler.plan.allocate import Allocation, allocate, in_bands, streamed_ports
from cnna.compiler.plan.command import KnownCommands, PlanContext, PlannedCommand
from cnna.compiler.plan.emit import emitted
from cnna.compiler.plan.find_tiling import KnownTilings
from cnna.compiler.plan.forced import NOTHING, Forced
from cnna.compiler.plan.hazards import KnownUses, add_waits
from cnna.compiler.plan.kernel_order import reordered
from cnna.compiler.plan.limits import LIMITS, PlanLimits
from cnna.compiler.plan.row_bands import near_vector, row_bands
from cnna.compiler.plan.schedule import schedule, stream_keys
from cnna.compiler.plan.segment import segment
from cnna.compiler.plan.tile import Tiling
from cnna.compiler.plan.waves import waves
from cnna.spec.config import Config
from cnna.spec.program.commands import Command
from cnna.spec.program.commands import commands as decode


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
    constants: ConstantSegment
    way: Way
    clocks: int


@dataclass(frozen=True)
class _Programmed:
    """A program, and what it was made from: commands without their waits, `plain`, and the sizes of the segments."""

    plain: list[PlannedCommand]
    segments: Mapping[str, int]
    commands: list[PlannedCommand]
    program: bytes


@dataclass(eq=False)
class MadeCommands:
    """What is known of commands wherever a plan has them, for configurations that differ in the size of the weight ring alone."""

    known: KnownCommands = field(default_factory=dict)
    uses: KnownUses = field(default_factory=KnownUses)
    figures: cost.KnownFigures = field(default_factory=dict)


@dataclass(eq=False)
class KnownPlans:
    """What plans of the same kernels have in common: in all ways, and for configurations that differ in the size of the weight ring
    alone, as long as the weights of the same kernels come in one piece (`streaming`).

    allocations: by way, and for kernels that are cut into waves by the size of that ring, which decides where.
    """

    streamed: dict[frozenset[Kernel], set[str]] = field(default_factory=dict)  # `streamed_ports` of kernels in any order
    tilings: KnownTilings = field(default_factory=dict)
    commands: MadeCommands = field(default_factory=MadeCommands)
    allocations: dict[tuple[Way, int], Allocation] = field(default_factory=dict)
    made: list[_Programmed] = field(default_factory=list)


def streaming(lowered: Lowered, config: Config) -> frozenset[int]:
    """The words of a chunk's weights that the weight ring does not hold. The ring's size decides about nothing else of a program,
    except for where kernels are cut into waves.
    """
    units = {part.stream.unit_words for kernel in lowered.kernels for part in kernel.parts if isinstance(part, ConvPart)}
    return frozenset(unit for unit in units if unit > config.ring_words)


@dataclass(eq=False)
class Planner:
    """Plans the same kernels in any way. Whatever several ways share is made once. known: gets what is made."""

    lowered: Lowered
    config: Config
    name: str
    limits: PlanLimits = LIMITS
    forced: Forced = NOTHING
    known: KnownPlans = field(default_factory=KnownPlans)
    _clocks: dict[bytes, int] = field(default_factory=dict)

    @cached_property
    def in_other_order(self) -> Lowered:
        """The kernels in the order of `kernel_order`."""
        return reordered(self.lowered, self.config)

    @cached_property
    def bands(self) -> tuple[int, ...]:
        """The bands of rows of the kernels, for a batch that is not cut."""
        return row_bands(self.lowered, self.config, self.limits)

    @cached_property
    def _constants(self) -> tuple[ConstantSegment, Mapping[Stream, int]]:
        """The segment of constants, and the offset of each stream in it."""
        streams = [part.stream for kernel in self.lowered.kernels for part in kernel.parts]
        constants = constant_segment(streams)
        return constants, dict(zip(streams, constants.offsets, strict=True))

    def plan(self, way: Way) -> Plan:
        """The plan of a way. ModelError: it exceeds a limit, for the reasons that `allocate` and `emit` give."""
        cut_up = segment(self.in_other_order if way.reordered else self.lowered, way.cut, way.abreast, self.config)
        bands = row_bands(cut_up, self.config, self.limits) if way.banded and not way.waves else ()
        streamed, whole = self._streamed_ports(cut_up), list(cut_up.kernels)
        if way.waves:
            cut_up, whole = waves(cut_up, near_vector(cut_up.kernels), way.waves, self.config, streamed, self.limits)
        allocation = self._allocated(way, cut_up, streamed)
        if bands:
            allocation = in_bands(allocation, cut_up, bands, self.config, self.forced)
        constants, offsets = self._constants
        streams = {(kernel, part): offsets[cut_up.kernels[kernel].parts[part].stream] for kernel, part in stream_keys(cut_up)}
        plain = schedule(PlanContext(cut_up, allocation, streams, self.config, self.known.commands.known))
        made = self._programmed(plain, allocation.segments)
        clocks = self._estimated(made.program)
        apart = replace(cut_up, kernels=tuple(own for kernel in cut_up.kernels for own in one_by_one(kernel)))
        tilings = dict(zip(whole, allocation.tilings, strict=True))
        return Plan(apart, allocation, tilings, made.commands, made.program, constants, way, clocks)

    def _allocated(self, way: Way, cut_up: Lowered, streamed: set[str]) -> Allocation:
        """The allocation of a way, without bands: of one with bands it is the same."""
        known, whole = self.known, (replace(way, banded=False), self.config.ring_words if way.waves else 0)
        if whole not in known.allocations:
            own = way.apart, streamed, way.waves > 0, self.forced, known.tilings
            known.allocations[whole] = allocate(cut_up, self.config, self.name, *own)
        return known.allocations[whole]

    def _streamed_ports(self, lowered: Lowered) -> set[str]:
        kernels, known = frozenset(lowered.kernels), self.known.streamed
        if kernels not in known:
            known[kernels] = streamed_ports(lowered, self.config)
        return known[kernels]

    def _programmed(self, plain: list[PlannedCommand], segments: Mapping[str, int]) -> _Programmed:
        """The program of commands without their waits. Ways that differ may have the same commands, so it is made once."""
        for made in self.known.made:
            if made.plain == plain and made.segments == segments:
                return made
        commands = add_waits(plain, segments, self.config, self.known.commands.uses)
        program, decoded = emitted(commands)
        self._estimated(program, decoded)
        made = _Programmed(plain, segments, commands, program)
        self.known.made.append(made)
        return made

    def _estimated(self, program: bytes, decoded: Iterable[Command] | None = None) -> int:
        """The clocks of a program. decoded: its commands, if they are there."""
        if program not in self._clocks:
            spans = cost.timeline_of(decoded or decode(program), self.config, known=self.known.commands.figures)
            self._clocks[program] = cost.total_cycles(spans)
        return self._clocks[program]
