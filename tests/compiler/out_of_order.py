"""Runs a program as adversely as its waits allow: engines advance in random order, unit by unit; reads are early, writes late.

Whatever the accelerator may do, this does at random. A unit begins when its waits are met, and reads at once or at the last moment.
Its writes are seen only when it finishes, while later units of its engine may have begun. Queues hold two commands and rings have
their size, so a program that can deadlock does.
"""

from collections import deque
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np

from cnna.sim.emulator import engines
from cnna.sim.emulator.state import EmulatorState, RingWords
from cnna.spec.config import Config
from cnna.spec.program.commands import Command, commands
from cnna.spec.program.window import steps_in_row
from cnna.spec.regmap import ADDRESS_BITS, COUNT_BITS, COUNTED, VECTOR_OPS

QUEUE = 2  # commands of an engine that wait or run; a further GO stops the program
AHEAD = 3  # units of an engine that may be under way at once


@dataclass
class Unit:
    """One unit of a command. `ring` are its words, `reach` all words of its ring up to its last one."""

    command: Command
    number: int
    f: SimpleNamespace
    ring: tuple[str, np.ndarray]
    reach: int
    need: int
    tables: dict  # of the engines when the command begins
    writes: list | None = None  # (cells, addresses, values) once it has read


class _View(EmulatorState):
    """The machine as one unit sees it: reads go through, writes are kept, and the ring holds only the unit's words."""

    def __init__(self, machine: EmulatorState, ring: tuple[str, np.ndarray], tables: dict) -> None:
        self.machine, self.config, self.tables = machine, machine.config, tables  # and no memory of its own
        self.features = machine.features
        self.kept: list[tuple[np.ndarray, np.ndarray]] = []
        words = RingWords(ring[0], 0)
        words.append(ring[1])
        self.weights = self.vector_ring = words

    def read(self, addresses: np.ndarray, outside: np.ndarray | None = None, pad: int = 0) -> np.ndarray:
        return self.machine.read(addresses, outside, pad)

    def write(self, command: Command, addresses: np.ndarray, words: np.ndarray, pixels: np.ndarray | None = None) -> None:
        self.kept.append((addresses % (1 << ADDRESS_BITS), np.array(words).view(np.uint8)))


class OutOfOrder:
    """Plays a program on a machine whose DDR and segments are set. AssertionError: nothing can go on (a deadlock)."""

    def __init__(self, machine: EmulatorState, program: bytes, rng: np.random.Generator) -> None:
        self.machine, self.rng = machine, rng
        self.config: Config = machine.config
        self.program = deque(commands(program))
        self.units = self._split(list(self.program))
        self.queues: dict[str, deque[Command]] = {e: deque() for e in (*COUNTED, "weight")}
        self.flying: dict[str, list[Unit]] = {e: [] for e in COUNTED}
        self.begun = dict.fromkeys(COUNTED, 0)  # units begun, counted from the first of the queue's head
        self.done = dict.fromkeys(COUNTED, 0)
        self.brought = {"weight": 0, "vector": 0}  # ring words delivered since start
        self.taken = {"weight": 0, "vector": 0}
        self.queue_words: deque[tuple[str, int]] = deque()

    def run(self) -> None:
        """Runs until every command has finished."""
        while self.program or any(self.queues.values()) or any(self.flying.values()):
            moves = [self._issue, self._bring]
            moves += [lambda e=e: self._begin(e) for e in COUNTED] + [lambda e=e: self._finish(e) for e in COUNTED]
            for index in self.rng.permutation(len(moves)):
                if moves[index]():
                    break
            else:
                stuck = {engine: [str(c) for c in queue] for engine, queue in self.queues.items() if queue}
                raise AssertionError(f"deadlock: {stuck}")

    def _split(self, found: list[Command]) -> dict[int, list[Unit]]:
        """The units of every command, by the command's number, with the ring words that they take in program order."""
        scratch = EmulatorState(self.config, self.machine.ddr, self.machine.ddr_base, self.machine.segments)
        counts = {"weight": 0, "vector": 0}
        made: dict[int, list[Unit]] = {}
        for command in found:
            if command.engine == "weight":
                engines.weight(scratch, command)
                continue
            made[command.number] = []
            table = self._table(command, scratch)
            for number in range(command.units(self.config.chunk_blocks)):
                f, name, words = self._unit(command, number, scratch)
                counts[name] += len(words) + (0 if number else table)
                unit = Unit(command, number, f, (name, words), counts[name], len(words), dict(scratch.tables))
                made[command.number].append(unit)
        assert scratch.weights.empty, "weights are left in the ring"
        assert scratch.vector_ring.empty, "parameters are left in the vector ring"
        return made

    def _table(self, command: Command, scratch: EmulatorState) -> int:
        """Takes the table that a command loads into `scratch`, if it loads one. Returns how many ring words that are."""
        if not getattr(command.f, "table_load", 0):
            return 0
        engines.take_table(scratch, command)
        return self.config.table_words if command.engine == "conv" else self.config.vector_table_words

    def _unit(self, command: Command, number: int, scratch: EmulatorState) -> tuple[SimpleNamespace, str, np.ndarray]:
        f, config = SimpleNamespace(**vars(command.f)), self.config
        step, f.table_load = config.chunk_blocks, 0
        if command.engine == "conv":
            f.chunks, f.dst, f.dst_blocks = 1, f.dst + number * step * f.dst_block, f.dst_blocks - number * step
            f.res += number * step * f.res_block
            terms = f.blocks * f.kernel_height * f.kernel_width
            groups = -(-f.images * f.out_height * f.out_width // config.pix)
            return f, "weight", scratch.weights.take(config.param_words + terms * (groups if f.stream else 1))
        if command.engine == "vector":
            f.blocks = min(step, f.blocks - number * step)
            ahead = number * step * (f.b_block if f.b_flat else f.src_block)
            f.src, f.src_kx = f.src + ahead, f.src_kx + number * step * f.src_block - ahead
            f.dst += number * step * f.dst_block
            taps = f.kernel_height * steps_in_row(f.kernel_width, f.window_apart) if VECTOR_OPS[f.op] == "depthwise" else 0
            params = config.vector_param_words * ((number == 0) if f.uniform else f.blocks)
            return f, "vector", scratch.vector_ring.take(params + taps * f.blocks)
        return f, "weight", np.empty((0, config.ring_word_bytes), np.uint8)

    # --- moves: each returns whether it could be made ---

    def _issue(self) -> bool:
        """Sends the sequencer's next GO."""
        if not self.program or len(self.queues[self.program[0].engine]) >= QUEUE:
            return False
        command = self.program.popleft()
        self.queues[command.engine].append(command)
        return True

    def _bring(self) -> bool:
        """Brings the weight engine's next words, as far as the ring has room (a unit in progress frees its own)."""
        if not self.queue_words:
            if not self.queues["weight"]:
                return False
            f = self.queues["weight"][0].f
            stripe = self.config.vector_word_bytes if f.ring else self.config.stripe_bytes
            self.queue_words.append(("vector" if f.ring else "weight", f.beats * 16 * f.repeat // stripe))
        name, left = self.queue_words[0]
        room = self._limit(name) - self.brought[name]
        count = min(left, room, int(self.rng.integers(1, 200)))
        if count <= 0:
            return False
        self.brought[name] += count
        self.queue_words[0] = (name, left - count)
        if left == count:
            self.queue_words.popleft()
            self.queues["weight"].popleft()
        return True

    def _limit(self, name: str) -> int:
        size = self.config.ring_words if name == "weight" else self.config.vector_ring_words
        engine = "conv" if name == "weight" else "vector"
        unit = self._next(engine)
        eats = unit if unit is not None and self._waits_met(unit) else None  # words that are taken as they come
        return max(self.taken[name] + size, eats.reach if eats and eats.need > size else 0)

    def _next(self, engine: str) -> Unit | None:
        """The unit that would begin next."""
        index = self.begun[engine]
        for command in self.queues[engine]:
            if index < len(self.units[command.number]):
                return self.units[command.number][index]
            index -= len(self.units[command.number])
        return None

    def _waits_met(self, unit: Unit) -> bool:
        for engine in COUNTED:
            enable, step, count = (getattr(unit.f, f"wait_{engine}_{part}") for part in ("enable", "step", "count"))
            if enable and (self.done[engine] - count - step * unit.number) % (1 << COUNT_BITS) >= 1 << (COUNT_BITS - 1):
                return False
        return True

    def _begin(self, engine: str) -> bool:
        unit = self._next(engine)
        if unit is None or len(self.flying[engine]) >= AHEAD or not self._waits_met(unit):
            return False
        if engine in ("conv", "vector") and self.brought[unit.ring[0]] < unit.reach:
            return False
        if engine in ("conv", "vector"):
            self.taken[unit.ring[0]] = max(self.taken[unit.ring[0]], unit.reach)
        self.begun[engine] += 1
        self.flying[engine].append(unit)
        if self.rng.random() < 0.5:
            self._read(unit)
        return True

    def _finish(self, engine: str) -> bool:
        """Finishes the oldest unit in progress: it reads if it has not yet, writes, and counts."""
        if not self.flying[engine]:
            return False
        unit = self.flying[engine].pop(0)
        if unit.writes is None:
            self._read(unit)
        assert unit.writes is not None
        for cells, where, values in unit.writes:
            cells[where] = values
        self.done[engine] += 1
        head = self.units[self.queues[engine][0].number]
        if unit is head[-1]:
            self.queues[engine].popleft()
            self.begun[engine] -= len(head)
        return True

    def _read(self, unit: Unit) -> None:
        machine, f = self.machine, unit.f
        if unit.command.engine in ("load", "store"):
            block, run, word, byte = np.ogrid[: f.blocks, : f.runs, : f.run, : self.config.ci]
            start = machine.segments[f.seg] - machine.ddr_base + f.ddr
            index = start + block * f.ddr_block + run * f.ddr_run + word * self.config.ci + byte
            words = (f.fm + block * f.fm_block + run * f.fm_run + word)[..., 0] % (1 << ADDRESS_BITS)
            if unit.command.engine == "load":
                unit.writes = [(machine.features, words, machine.ddr[index])]
            else:
                unit.writes = [(machine.ddr, index, machine.features[words])]
            return
        view = _View(machine, (unit.ring[0], self._words(unit)), unit.tables)
        engines.ENGINE_RUNS[unit.command.engine](view, replace(unit.command, f=f))
        unit.writes = [(machine.features, addresses, values) for addresses, values in view.kept]

    def _words(self, unit: Unit) -> np.ndarray:
        """A unit's ring words. The later units of a uniform command share the parameters of the first."""
        if unit.command.engine == "vector" and unit.f.uniform and unit.number:
            params = self.units[unit.command.number][0].ring[1][: self.config.vector_param_words]
            return np.concatenate([params, unit.ring[1]])
        return unit.ring[1]
