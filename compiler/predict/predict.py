"""Predicts when each command of a program begins and ends, by simulating it on a model of the accelerator, for reports.

The quick estimates of `cost` serve to compare plans. This model follows queues, waits, rings and banks as the hardware has them.
Each engine is a process of the `event_loop`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from math import inf
from typing import Final

from cnna.compiler.cost.engine_steps import Fields, command_steps
from cnna.compiler.predict.active_engines import ActiveEngines, Walk
from cnna.compiler.predict.command_walks import READ_CLOCKS, START_CLOCKS, seen_clocks, walk_groups
from cnna.compiler.predict.event_loop import EventLoop, Handed, Process, Queue, Released
from cnna.compiler.predict.known_stretches import KnownStretches
from cnna.compiler.predict.least_left import ROUNDED, LeastLeft
from cnna.compiler.predict.read_ahead import COMMAND_CLOCKS
from cnna.compiler.predict.ready import Lasting
from cnna.compiler.predict.rings import Taking
from cnna.compiler.predict.transfers import Transfers
from cnna.compiler.predict.weight_ports import WeightPorts
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.ddr import PLANNED, DdrSpeed
from cnna.spec.errors import ArtifactError
from cnna.spec.garbage import held_back
from cnna.spec.machine import BURST_BEATS
from cnna.spec.program.commands import WRITE_BYTES, Command, commands
from cnna.spec.regmap import COUNTED, VECTOR_OPS

TAKE_CLOCKS: Final = 6  # from a GO until the engine has the command
QUEUED = {"load": 2, "weight": 5, "conv": 4, "vector": 4, "store": 2}  # commands that an engine holds, including the active one
PLAN_CLOCKS: Final = 11  # from the first step of a command's last block to the next command's, besides one a lane: it is planned
ARRAY_CLOCKS: Final = 42  # from the array's steps to the writes of their results, besides the cascades' clocks
TABLE_CLOCKS: Final = 7  # from an engine's last step before a table until that is written, besides its words and writes
TABLE_WRITES: Final = 64  # clocks
RESULT_CLOCKS: Final = 18  # for which results of the command before may hold up these writes
PAGE_WRITES = BURST_BEATS * BEAT_BYTES // WRITE_BYTES  # register writes in a burst of the program
PREDICTING = "predicting commands"


Wait = tuple[list[float], int, int]
Count = Callable[[int, int, str], object]  # takes how many of how many steps are done, and what they do


@dataclass(frozen=True)
class PredictedSpan:
    """When an engine works on a command, in clocks from start. held: from when to when the command is at the engine's input."""

    engine: str
    begin: int
    end: int
    held: tuple[int, int]


def predicted_spans(
    program: bytes,
    config: Config,
    memory: DdrSpeed = PLANNED,
    count: Count | None = None,
    known: KnownStretches | None = None,
    most: float = inf,
) -> list[PredictedSpan]:
    """A span for each command of a program, in program order. count: is told of each command that has ended.

    known: what the predictions of other programs have simulated, of the same configuration and DDR; this one adds to it.
    TooManyClocksError: the program certainly takes more clocks than `most`; this is often known after a small part of them.
    ArtifactError: the engines wait for each other forever.
    """
    with held_back():  # what is made here holds no cycles, but all that the caller has would be searched for them
        return _Simulation(list(commands(program)), config, memory, count, known, most).run()


class TooManyClocksError(Exception):
    """A program takes more clocks than its prediction is wanted for."""


class ChunkWrites:
    """The array's writes of a chunk, and the clock at which they end; inf: not known yet."""

    def __init__(self, walk: Walk) -> None:
        self.walk, self.end = walk, inf


class ChunkWritten(Lasting):
    """Comes when the writes of chunk `number` begin, or end if `whole`."""

    def __init__(self, written: list[ChunkWrites], number: int, whole: bool = False) -> None:
        self._written, self._number, self._whole = written, number, whole

    def clock(self, now: float) -> float:
        """inf: not known yet."""
        if self._number >= len(self._written):
            return inf
        own = self._written[self._number]
        return own.end if self._whole else own.walk.begin


class Fetching(Lasting):
    """Comes when there are beats of the program to fetch."""

    def __init__(self, work: ActiveEngines) -> None:
        self._work = work

    def clock(self, now: float) -> float:
        """0, or inf: not yet."""
        return 0.0 if self._work.fetched else inf


class Units(Lasting):
    """Comes `late` clocks after all units for which unit `unit` of a command waits. waits: as `_Simulation.waits`."""

    def __init__(self, waits: list[Wait], unit: int = 0, late: int = 0) -> None:
        self._waits, self._unit, self._late = waits, unit, late

    def clock(self, now: float) -> float:
        """inf: not known yet."""
        latest = 0.0
        for clocks, first, step in self._waits:
            number = first + self._unit * step
            if number > len(clocks):
                return inf
            latest = max(latest, (clocks[number - 1] if number else 0.0) + self._late)
        return latest


class VectorBlock:
    """The vector engine's last block. end: when it ended. slow: whether its walk was. ready: when the next command can begin."""

    def __init__(self, end: float = -inf, slow: bool = False, ready: float = -inf) -> None:
        self.end, self.slow, self.ready = end, slow, ready


class _Simulation:
    """The processes of the engines, and their progress."""

    def __init__(
        self,
        program: Sequence[Command],
        config: Config,
        memory: DdrSpeed,
        count: Count | None,
        known: KnownStretches | None,
        most: float,
    ) -> None:
        self.program, self.config, self.memory, self.count = program, config, memory, count
        self.known = KnownStretches() if known is None else known
        self.machine = EventLoop(config, memory, self.known)
        self.queues = {engine: Queue() for engine in QUEUED}
        self.written: list[ChunkWrites] = []
        self.spans: dict[int, PredictedSpan] = {}
        self.vector_block = VectorBlock()
        self.results = {"conv": 0, "vector": 0}  # clocks for which the last results of an engine's last command pass the tables

        self.most = most
        self.left = LeastLeft(program, config, memory, self.known) if most < inf else None

    def run(self) -> list[PredictedSpan]:
        """Runs all engines until the program has ended."""
        if self.left and self.left.whole > self.most + ROUNDED:
            raise TooManyClocksError
        ports = WeightPorts(self.machine, self.queues["weight"], self._span)
        moved = Transfers(self.machine, self.queues, ports, lambda command: Units(self.waits(vars(command.f))), self._span)
        processes = {"program": self._register_writes(), "fetched": self._fetches(), "written": self._array_writes()}
        processes |= {"load asked": moved.asking(), "load moved": moved.loads(), "store moved": moved.stores()}
        for engine, work in {"load": moved.deal, "conv": self._conv, "vector": self._vector, "store": moved.deal}.items():
            processes[engine] = self._engine(engine, work)
        for part in range(len(self.machine.weight_ports)):
            processes[f"weights{part}"] = self._engine("weight", partial(ports.ask, part))
            processes[f"answers{part}"] = ports.answers(part)
        self.machine.run(processes)
        waiting = next((command for command in self.program if command.number not in self.spans), None)
        if waiting is not None:
            raise ArtifactError(f"the program never ends: {waiting} waits for an event that never comes; compile the model again")
        return [self.spans[command.number] for command in self.program]

    def _register_writes(self) -> Process:
        """Performs the program's register writes, one a clock. A full queue stops it."""
        clock, written, handed = float(START_CLOCKS), 0, dict.fromkeys(QUEUED, 0)
        for command in self.program:
            engine, queue = command.engine, self.queues[command.engine]
            self.machine.work.fetched += BURST_BEATS * (command.pc // PAGE_WRITES - written // PAGE_WRITES)
            clock, written = clock + command.pc - written, command.pc
            yield Released(queue, handed[engine] - QUEUED[engine])
            clock = max(clock, self.machine.now)
            yield self.machine.after(clock - self.machine.now)
            queue.commands.append((command, clock + TAKE_CLOCKS))
            handed[engine] += 1

    def _fetches(self) -> Process:
        """Moves the beats of the program, a page at a time. Nothing here waits for them, but they take their share of DDR."""
        work = self.machine.work
        while True:
            yield Fetching(work)
            beats, work.fetched = work.fetched, 0
            yield from self.machine.flow("program", beats * BEAT_BYTES, BEAT_BYTES)

    def _engine(self, engine: str, work: Callable[[Command], Process]) -> Process:
        """Works through an engine's commands in order."""
        queue = self.queues[engine]
        for number in count():
            yield Handed(queue, number)
            yield from work(queue.commands[number][0])

    def waits(self, fields: Fields) -> list[Wait]:
        """The units for which those of a command wait: the clocks of an engine's units, how many, and how many more each time."""
        found = list[Wait]()
        for engine in COUNTED:
            if fields[f"wait_{engine}_enable"]:
                found.append((self.machine.units[engine], fields[f"wait_{engine}_count"], fields[f"wait_{engine}_step"]))
        return found

    def _span(self, command: Command, begin: float, end: float, held: tuple[float, float]) -> None:
        self.spans[command.number] = PredictedSpan(command.engine, int(begin), int(end), (int(held[0]), int(held[1])))
        if self.count:
            self.count(len(self.spans), len(self.program), PREDICTING)

    def _check(self, left: LeastLeft, command: Command, unit: int, begin: float) -> None:
        """TooManyClocksError: the program takes too many, since a chunk or block begins so late."""
        if left.exceeds(self.most, command, unit, begin):
            raise TooManyClocksError

    # --- the array ---

    def _conv(self, command: Command) -> Process:
        """Works chunk by chunk."""
        fields, config, machine = vars(command.f), self.config, self.machine
        taken, begin, waits, ring = machine.now, inf, self.waits(fields), machine.rings[0]
        work = command_steps("conv", fields, config)
        seen = seen_clocks("conv", fields, work.made, config)
        groups = walk_groups(fields, work.blocks, work.made, config, self.known)
        own = groups.clocks
        latency, between = config.cascade // config.depth, sum(own[1:-1])
        param_words, table_words, chunk_blocks = config.param_words, config.table_words, config.chunk_blocks
        chunks, dst_blocks, table, stream = fields["chunks"], fields["dst_blocks"], fields["table_load"], fields["stream"]
        for chunk in range(chunks):
            params = param_words + (table_words if table and chunk == 0 else 0)
            yield Taking(ring, params, [params], True)
            yield Units(waits, chunk, READ_CLOCKS["conv"])
            late = self._late(command, taken, own[0]) if chunk == 0 else 0
            begin = min(begin, machine.now)
            if self.left:
                self._check(self.left, command, chunk, machine.now)
            blocks = (chunk * chunk_blocks, min((chunk + 1) * chunk_blocks, dst_blocks))
            self.written.append(written := ChunkWrites(Walk(fields, blocks, groups, machine.now + latency + ARRAY_CLOCKS)))
            if stream or len(own) == 1:  # each group takes the weights and frees them
                yield Taking(ring, work.each, [own[0] + late, *own[1:]] if late else own, True)
            else:  # the first one takes them, and the last one frees them
                yield Taking(ring, work.each, [own[0] + late], False)
                yield machine.after(between)
                ring.taken -= work.each
                yield Taking(ring, work.each, own[-1:], True)
            written.end = machine.now + latency + ARRAY_CLOCKS
            end = machine.end_unit("conv", seen)
        window = max(RESULT_CLOCKS - table_words, 0) * min(work.written / (groups.ends[-1] / len(own)), 1.0)
        self.results["conv"] = min(work.written * len(own), int(window))
        self.queues["conv"].released += 1
        self._span(command, begin, end, (taken, machine.now))

    def _array_writes(self) -> Process:
        """The array's writes, chunk by chunk. They come later than its steps."""
        for number in count():
            yield ChunkWritten(self.written, number)
            self.machine.work.writing = self.written[number].walk
            yield ChunkWritten(self.written, number, True)
            self.machine.work.writing = None

    def _late(self, command: Command, taken: float, group: int) -> int:
        """Clocks by which a command's first group ends later because its table, begun at `taken`, is not yet written."""
        if not command.f.table_load:
            return 0
        words = self.config.table_words if command.engine == "conv" else self.config.vector_table_words
        written = taken + words + TABLE_WRITES + TABLE_CLOCKS + self.results[command.engine]
        return max(0, int(written - self.machine.now) - group)

    # --- the vector engine ---

    def _vector(self, command: Command) -> Process:
        """Works block by block. A depthwise block takes its parameters only when the block before is done.

        It reads beside them: the words wait in a FIFO, so these clocks make up for some that the reads lose to other engines.
        """
        fields, config, machine = vars(command.f), self.config, self.machine
        ring, taken, begin, waits = machine.rings[1], machine.now, inf, self.waits(fields)
        work = command_steps("vector", fields, config)
        seen = seen_clocks("vector", fields, 1, config)
        depthwise = VECTOR_OPS[fields["op"]] == "depthwise"
        groups = walk_groups(fields, 1, 1, config, self.known)
        slow, clocks, last, chunk_blocks = groups.slow, float(groups.ends[-1]), fields["blocks"] - 1, config.chunk_blocks
        param_words, table_words = config.vector_param_words, config.vector_table_words if fields["table_load"] else 0
        for block in range(last + 1):
            unit, inner = block // chunk_blocks, block % chunk_blocks
            params = param_words + table_words if block == 0 else 0 if fields["uniform"] else param_words
            ring.taken += params + (work.taps if depthwise else 0)
            yield ring.when_taken(0)
            loaded = machine.now + (params if depthwise else 0)
            ring.freed += params
            yield machine.after(self._pause(slow) if block == 0 else 0)
            yield Units(waits, unit, READ_CLOCKS["vector"])
            yield machine.after(self._late(command, taken, groups.clocks[0]) if block == 0 else 0)
            begin = min(begin, max(machine.now, loaded))
            if self.left:
                self._check(self.left, command, block, max(machine.now, loaded))
            least = max(machine.now, loaded) + clocks
            follows = machine.now <= self.vector_block.end + 1
            planned = machine.now + PLAN_CLOCKS + config.pix
            machine.work.reading = Walk(fields, (block, block + 1), groups, machine.now, slow, follows)
            yield from machine.flow("vector", clocks, 1)
            self.vector_block = VectorBlock(machine.now, slow, max(machine.now + COMMAND_CLOCKS, planned))
            machine.work.reading, ring.freed = None, ring.taken
            yield machine.after(max(least - machine.now, 0.0))
            if inner == chunk_blocks - 1 or block == last:
                end = machine.end_unit("vector", seen)
        self.queues["vector"].released += 1
        self._span(command, begin, end, (taken, machine.now))

    def _pause(self, slow: bool) -> float:
        """The clocks until a command's first block can begin. `read_ahead` has the pauses between slow walks."""
        before = self.vector_block
        return 0 if slow and before.slow else max(before.ready - self.machine.now, 0)
