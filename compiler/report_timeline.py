"""What each engine did when: as predicted, and as measured from the clocks at which a run finished its units.

Between `cost.timeline` (or a run's figures) and the report's tables and drawings.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cnna.compiler.cost import PLANNED, QUEUE_COMMANDS, Memory, timeline
from cnna.host.artifact import Artifact
from cnna.host.errors import DataError
from cnna.hw.regmap import COUNTED, ENGINES
from cnna.sim.commands import Command, commands

UnitClocks = Mapping[str, Sequence[int]]  # by engine: the clock at which its first, second, ... unit was finished


@dataclass(frozen=True)
class Bar:
    """A command's time on its engine, in clocks from start. `command`: its number among the program's."""

    engine: str
    command: int
    layer: int
    begin: int
    end: int


def predicted_bars(artifact: Artifact, memory: Memory = PLANNED) -> list[Bar]:
    """A bar for each command, in program order."""
    owners = artifact.manifest["commands"]
    spans = timeline(artifact.program, artifact.config, memory)
    return [
        Bar(span.engine, number, int(owner["layer"]), span.begin, span.end)
        for number, (span, owner) in enumerate(zip(spans, owners, strict=True))
    ]


def measured_bars(artifact: Artifact, finished: UnitClocks) -> list[Bar]:
    """A bar for each command whose units are counted (all but those of `weight`), in program order.

    It ends when its last unit was finished, and begins when it could: its engine free, the units that it waits for
    finished, its GO written (a full queue holds the program). DataError: the clocks are not of this program.
    """
    bars: list[Bar] = []
    ends: dict[str, deque[int]] = {engine: deque([0], maxlen=QUEUE_COMMANDS) for engine in ENGINES}
    units = dict.fromkeys(COUNTED, 0)
    clock = written = 0
    for command in commands(artifact.program):
        engine, queue = command.engine, ends[command.engine]
        clock, written = clock + command.pc - written, command.pc
        if engine not in units:
            continue
        if len(queue) == QUEUE_COMMANDS:
            clock = max(clock, queue[0])
        units[engine] += command.units(artifact.config.chunk_blocks)
        end = _clock_of(finished, engine, units[engine])
        begin = max(clock, queue[-1], _released(command, finished))
        queue.append(end)
        layer = int(artifact.manifest["commands"][command.number]["layer"])
        bars.append(Bar(engine, command.number, layer, min(begin, end), end))
    if any(len(finished[engine]) != count for engine, count in units.items()):
        raise DataError("the measured timeline has more units than the program")
    return bars


def _released(command: Command, finished: UnitClocks) -> int:
    """When the units that a command's first unit waits for were finished."""
    fields = vars(command.f)
    counts = {engine: fields[f"wait_{engine}_count"] for engine in COUNTED if fields[f"wait_{engine}_enable"]}
    return max((_clock_of(finished, engine, count) for engine, count in counts.items()), default=0)


def _clock_of(finished: UnitClocks, engine: str, units: int) -> int:
    """When an engine had finished that many units. DataError: it never had."""
    clocks = finished.get(engine, ())
    if units > len(clocks):
        raise DataError(f"the measured timeline has {len(clocks)} units of {engine}, the program more")
    return clocks[units - 1] if units else 0


def busy(bars: Iterable[Bar]) -> dict[str, int]:
    """Clocks that each engine works."""
    found = dict.fromkeys(ENGINES, 0)
    for bar in bars:
        found[bar.engine] += bar.end - bar.begin
    return found


def layer_clocks(bars: Sequence[Bar], layers: int) -> list[int]:
    """Clocks of each layer, which sum to the last bar's end: those up to a conv command's end, from the one before, are its
    layer's; then, of what the array does not do, the layer's of the first unfinished command in program order.

    The same rule by which a run's clocks are given to layers, but for commands that the array does not have yet.
    """
    found, clock = [0] * layers, 0
    for bar in bars:
        if bar.engine == "conv":
            found[bar.layer] += bar.end - clock
            clock = bar.end
    for bar in bars:
        if bar.engine != "weight" and bar.end > clock:
            found[bar.layer] += bar.end - clock
            clock = bar.end
    return found
