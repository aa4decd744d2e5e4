"""Bars that show when each engine worked on what: as predicted, or as measured from the clocks at which a run finished its units.

Reports make their tables and drawings from these bars.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cnna.compiler.predict.predict import PredictedSpan, predicted_spans
from cnna.spec.artifact import ProgramPiece
from cnna.spec.ddr import DdrSpeed
from cnna.spec.errors import DataError
from cnna.spec.machine import QUEUE_COMMANDS
from cnna.spec.manifest import CommandEntry, Predicted
from cnna.spec.program.commands import Command, commands
from cnna.spec.regmap import COUNTED, ENGINES

UnitClocks = Mapping[str, Sequence[int]]  # by engine: the clock at which its first, second, ... unit was finished
WeightClocks = Sequence[Sequence[int]]  # by weight command: the clocks of its first and of its last beat


@dataclass(frozen=True)
class Bar:
    """The time that a command takes on its engine, in clocks from start. command: its number in the program.

    held: from when to when the command is at the engine's input. This may begin before the first step, and it ends before the last
    word is written. If it is not known, it runs from begin to end.
    """

    engine: str
    command: int
    layer: int
    begin: int
    end: int
    held: tuple[int, int]


def predicted_bars(piece: ProgramPiece, memory: DdrSpeed | None = None) -> list[Bar]:
    """A bar for each command, in program order: from the manifest, or predicted anew if it has none for this memory."""
    entries, memory = piece.manifest["commands"], memory or piece.predicted_for
    if "predicted" not in piece.manifest or memory != piece.predicted_for:
        return bars_of(predicted_spans(piece.program, piece.config, memory), [int(entry["layer"]) for entry in entries])
    bars = []
    for number, entry in enumerate(entries):
        begin, end, *held = entry["predicted"]
        bars.append(Bar(entry["engine"], number, int(entry["layer"]), begin, end, (held[0], held[1])))
    return bars


def bars_of(spans: Iterable[PredictedSpan], layers: Sequence[int]) -> list[Bar]:
    """The predictor's bars for any program. spans, layers: the span and the layer of each command."""
    bars: list[Bar] = []
    free = dict.fromkeys(ENGINES, 0)  # when the last command's last word was written; the next may begin earlier
    for number, span in enumerate(spans):
        begin = min(max(span.begin, free[span.engine]), span.end)
        free[span.engine] = span.end
        bars.append(Bar(span.engine, number, layers[number], begin, span.end, span.held))
    return bars


def in_a_row(programs: Iterable[tuple[ProgramPiece, Sequence[Bar]]]) -> list[Bar]:
    """The bars of several programs that run one after another, with clocks, commands and layers counted on from one to the next."""
    joined: list[Bar] = []
    clock = command = layer = 0
    for piece, bars in programs:
        for bar in bars:
            held = (bar.held[0] + clock, bar.held[1] + clock)
            joined.append(Bar(bar.engine, bar.command + command, bar.layer + layer, bar.begin + clock, bar.end + clock, held))
        clock += last_clock(bars)
        command, layer = command + len(piece.manifest["commands"]), layer + len(piece.manifest["layers"])
    return joined


def last_clock(bars: Iterable[Bar | PredictedSpan]) -> int:
    """The clock at which everything is done, of bars or of the spans that they are made of.

    Weight commands do not count: the engine that uses the weights ends later.
    """
    return max((bar.end for bar in bars if bar.engine != "weight"), default=0)


def measured_bars(piece: ProgramPiece, finished: UnitClocks, brought: WeightClocks | None = None) -> list[Bar]:
    """A bar for each command, in program order; without `brought`, none for those of `weight`.

    A bar ends when the command's last unit was finished. It begins when the command could begin: its engine is free, the units for
    which it waits are finished, and its GO is written (a full queue stops the program). A bar of `weight` goes from the first beat
    that came to the last one, but not back before the end of the bar before it: some ports are ahead of others. DataError: the
    clocks are of another program.
    """
    came = iter(brought or ())
    bars: list[Bar] = []
    ends: dict[str, deque[int]] = {engine: deque([0], maxlen=QUEUE_COMMANDS) for engine in ENGINES}
    units = dict.fromkeys(COUNTED, 0)
    clock = written = 0
    for command in commands(piece.program):
        engine, queue = command.engine, ends[command.engine]
        clock, written = clock + command.pc - written, command.pc
        layer = int(piece.manifest["commands"][command.number]["layer"])
        if engine not in units:
            if brought is not None:
                bars.append(_weight_bar(command, layer, next(came, None), queue))
            continue
        if len(queue) == QUEUE_COMMANDS:
            clock = max(clock, queue[0])
        units[engine] += command.units(piece.config.chunk_blocks)
        end = _clock_of(finished, engine, units[engine])
        begin = max(clock, queue[-1], _released(command, finished))
        queue.append(end)
        begin = min(begin, end)
        bars.append(Bar(engine, command.number, layer, begin, end, (begin, end)))
    if any(len(finished[engine]) != count for engine, count in units.items()) or next(came, None):
        raise DataError("the measured timeline has more units than the program")
    return bars


def _weight_bar(command: Command, layer: int, clocks: Sequence[int] | None, queue: deque[int]) -> Bar:
    """The measured bar of a weight command, whose end joins `queue`. DataError: there are no clocks of it."""
    if clocks is None:
        raise DataError("the measured timeline has fewer weights than the program")
    end = max(clocks[1] + 1, queue[-1])
    begin = min(max(clocks[0], queue[-1]), end)
    queue.append(end)
    return Bar("weight", command.number, layer, begin, end, (begin, end))


def _released(command: Command, finished: UnitClocks) -> int:
    """The clock at which all units for which a command's first unit waits were finished."""
    fields = vars(command.f)
    counts = {engine: fields[f"wait_{engine}_count"] for engine in COUNTED if fields[f"wait_{engine}_enable"]}
    return max((_clock_of(finished, engine, count) for engine, count in counts.items()), default=0)


def _clock_of(finished: UnitClocks, engine: str, units: int) -> int:
    """The clock at which an engine had finished `units` units. DataError: it never did."""
    clocks = finished.get(engine, ())
    if units > len(clocks):
        raise DataError(f"the measured timeline has {len(clocks)} units of {engine}; the program has more")
    return clocks[units - 1] if units else 0


def busy(bars: Iterable[Bar]) -> dict[str, int]:
    """The clocks in which each engine works."""
    found = dict.fromkeys(ENGINES, 0)
    for bar in bars:
        found[bar.engine] += bar.end - bar.begin
    return found


def layer_clocks(bars: Sequence[Bar], layers: int) -> list[int]:
    """Clocks of each layer. Their sum is the clock at which the last bar ends. bars: in program order.

    Clocks in which the array has a command belong to that command's layer. The others belong to the layer of the first unfinished
    command in program order. `sim.rtl.profile` assigns a run's clocks to layers by the same rule.
    """
    found, clock = [0] * layers, 0
    others = deque(bar for bar in bars if bar.engine not in ("conv", "weight"))
    for bar in bars:
        if bar.engine == "conv":
            clock = _without_array(found, others, bar, clock, bar.held[0])
            found[bar.layer] += bar.held[1] - clock
            clock = bar.held[1]
    end = last_clock(bars)
    clock = _without_array(found, others, None, clock, end)
    if clock < end:  # the array's last words are being written
        found[bars[-1].layer] += end - clock
    return found


def _without_array(found: list[int], others: deque[Bar], following: Bar | None, clock: int, until: int) -> int:
    """Gives the clocks from `clock` to `until` to the first unfinished command of `others`, or to the array's `following` command.

    Removes finished commands from `others`. Returns the clock up to which all clocks belong to a command.
    """
    while clock < until:
        while others and others[0].end <= clock:
            others.popleft()
        first = others[0] if others and not (following and following.command < others[0].command) else following
        if first is None:
            return clock
        upto = until if first is following else min(until, first.end)
        found[first.layer] += upto - clock
        clock = upto
    return clock


@dataclass(frozen=True)
class Prediction:
    """The clocks of a program with a given DDR. layers: the clocks of each layer; their sum is the total."""

    memory: DdrSpeed
    bars: tuple[Bar, ...]
    layers: tuple[int, ...]

    @property
    def cycles(self) -> int:
        """Clocks from start to done, for one batch."""
        return last_clock(self.bars)

    def total(self) -> Predicted:
        """The manifest's entry `predicted`."""
        return {"cycles": self.cycles, "ddr": self.memory.entry()}


def prediction(spans: Iterable[PredictedSpan], commands: Sequence[CommandEntry], layers: int, memory: DdrSpeed) -> Prediction:
    """A program's clocks, layer by layer.

    spans: of its commands, with that memory. commands: the manifest's entries, which name the layer of each command. layers: their
    number.
    """
    bars = bars_of(spans, [int(command["layer"]) for command in commands])
    return Prediction(memory, tuple(bars), tuple(layer_clocks(bars, layers)))
