"""A compute engine with feature memory and ring under Verilator, played from numpy: what the tests of the engines run.

Everything an engine takes goes into deep FIFOs first, so that the inputs of every clock are known beforehand (`bench`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from amaranth import Module, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from numpy.typing import NDArray

from cnna.hw.array.conv import Conv
from cnna.hw.base.ports import ADDRESS_BITS, command_layout, feature_write_request
from cnna.hw.base.queues import CreditFifo
from cnna.hw.memory.feature_memory import FeatureMemory
from cnna.hw.units.waits import UnitCounts
from cnna.hw.vector.vector import Vector
from cnna.hw.weights.ring import WordRing
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.machine import BEAT_BITS
from cnna.spec.regmap import COUNTED, STALLS
from tests.rigs import bench
from tests.rigs.block import make_block

COMMANDS, BEATS = 64, 4096  # the most that a run can bring; beats are of a column
SETTLE = 40  # clocks until the FIFOs and feature memory are at rest
LOADS = 16  # words come in and go out every other clock, so nothing is in their way
Words = NDArray[np.uint8]


class EngineBench(wiring.Component):
    """`conv` or `vector` with its ports of feature memory and its ring.

    `go` lets commands out of their FIFO, and `pace` each column's beats. `others` are unit pulses of all engines, by COUNTED; the
    engine's own are added. `dump` reads lanes of words from an address on.
    """

    def __init__(self, config: Config, engine: str) -> None:
        self.config, self.engine = config, engine
        self.columns = config.ports if engine == "conv" else 1
        self.lanes = config.ports * config.beat_words
        super().__init__(
            {
                "go": In(1),
                "pace": In(self.columns),
                "others": In(len(COUNTED)),
                "load_push": In(1),
                "load": In(feature_write_request(config, self.lanes)),
                "command_push": In(1),
                "command": In(command_layout(engine)),
                "beat_push": In(self.columns),
                "beat": In(data.ArrayLayout(BEAT_BITS, self.columns)),
                "dump_push": In(1),
                "dump": In(ADDRESS_BITS),
                "unit": Out(1),
                "busy": Out(1),
                "active": Out(1),
                "stall": Out(unsigned(8)),
                "started": Out(unsigned(32)),
                "words_valid": Out(1),
                "words": Out(data.ArrayLayout(8 * config.ci, self.lanes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        conv = self.engine == "conv"
        m.submodules.engine = engine = Conv(self.config) if conv else Vector(self.config)
        m.submodules.memory = memory = FeatureMemory(self.config)
        m.submodules.counts = counts = UnitCounts()
        wiring.connect(m, engine.source, getattr(memory, f"{self.engine}_read"))
        wiring.connect(m, engine.write, getattr(memory, f"{self.engine}_write"))
        if conv:
            wiring.connect(m, engine.residual, memory.residual_read)
            m.d.comb += [self.stall.eq(engine.stall), self.started.eq(engine.started)]
        m.d.comb += [
            counts.unit.eq(self.others | (engine.unit << COUNTED.index(self.engine))),
            engine.done.eq(counts.done),
            *(getattr(self, name).eq(getattr(engine, name)) for name in ("unit", "busy", "active")),
        ]
        self._feed(m, engine)
        self._memory(m, memory)
        return m

    def _feed(self, m: Module, engine: Any) -> None:
        """Connects commands and ring beats."""
        m.submodules.commands = commands = CreditFifo(command_layout(self.engine), COMMANDS)
        m.d.comb += [
            commands.push.eq(self.command_push),
            commands.item.eq(self.command),
            engine.command.valid.eq(commands.o.valid & self.go),
            engine.command.p.eq(commands.o.p),
            commands.o.ready.eq(engine.command.ready & self.go),
        ]
        depth = self.config.ring_words if self.engine == "conv" else self.config.vector_ring_words
        width = 8 * self.config.ring_word_bytes if self.engine == "conv" else 8 * self.config.vector_word_bytes
        m.submodules.ring = ring = WordRing(width, depth, self.columns)
        wiring.connect(m, engine.ring, ring.read)
        for column in range(self.columns):
            m.submodules[f"beats{column}"] = beats = CreditFifo(unsigned(BEAT_BITS), BEATS)
            allowed = self.pace[column] & (ring.free[column] != 0)
            m.d.comb += [
                beats.push.eq(self.beat_push[column]),
                beats.item.eq(self.beat[column]),
                ring.write[column].valid.eq(beats.o.valid & allowed),
                ring.write[column].payload.eq(beats.o.p),
                beats.o.ready.eq(allowed),
            ]

    def _memory(self, m: Module, memory: FeatureMemory) -> None:
        """Writes words before a run and reads them after it."""
        m.submodules.loads = loads = CreditFifo(feature_write_request(self.config, self.lanes), LOADS)
        m.submodules.dumps = dumps = CreditFifo(unsigned(ADDRESS_BITS), LOADS)
        request = memory.store.request
        wiring.connect(m, loads.o, memory.load.request)
        m.d.comb += [
            loads.push.eq(self.load_push),
            loads.item.eq(self.load),
            dumps.push.eq(self.dump_push),
            dumps.item.eq(self.dump),
            request.valid.eq(dumps.o.valid),
            dumps.o.ready.eq(request.ready),
            request.p.active.eq(~0),
            *(request.p.address[lane].eq(dumps.o.p + lane) for lane in range(self.lanes)),
            self.words_valid.eq(memory.store.response.valid),
            self.words.eq(memory.store.response.p.words),
        ]


@dataclass(frozen=True)
class Trace:
    """A run, clock by clock from `go`, and the content of feature memory after it (uint8 [words, ci])."""

    features: Words
    unit: NDArray[np.bool_]
    active: NDArray[np.bool_]
    stall: NDArray[np.uint8]
    started: NDArray[np.uint32]


def play(
    config: Config,
    engine: str,
    commands: Sequence[SimpleNamespace],
    ring: Words,
    features: Words,
    clocks: int,
    pace: NDArray[np.uint8] | None = None,
    others: NDArray[np.uint8] | None = None,
) -> Trace:
    """Runs commands (members as in `regmap.command_fields`), all queued at once, for so many clocks.

    ring: uint8 [words, bytes]; features: uint8 [words, ci]; pace, others: uint8 [clocks at most], see `EngineBench`; by default no
    pulses, and a ring that is filled before the commands go, then at full pace. RuntimeError: the engine still works after
    `clocks`, or Verilator failed.
    """
    block = make_block(EngineBench, config, engine)
    component = block.component
    bases = np.arange(0, config.feature_words, component.lanes)
    begin = max(len(ring) * ring.shape[1] // (component.columns * BEAT_BYTES), 2 * len(bases), len(commands)) + SETTLE
    end = begin + clocks
    inputs = _before(component, commands, ring, features, end + 2 * len(bases) + SETTLE)
    _during(inputs, component.columns, begin, pace, others)
    inputs["dump"][end : end + 2 * len(bases) : 2] = bases
    inputs["dump_push"][end : end + 2 * len(bases) : 2] = 1
    found = bench.run(block, inputs)
    if found["busy"][end, 0]:
        raise RuntimeError(f"{engine} still works after {clocks} clocks: {int(found['unit'][:end].sum())} units are done")
    words = found["words"][found["words_valid"][:, 0] == 1].reshape(-1, config.ci)[: config.feature_words]
    part = {name: found[name][begin:end] for name in ("unit", "active", "stall", "started")}
    return Trace(
        words,
        part["unit"][:, 0].astype(bool),
        part["active"][:, 0].astype(bool),
        part["stall"][:, 0],
        np.ascontiguousarray(part["started"]).view("<u4")[:, 0],
    )


def _before(
    component: EngineBench, commands: Sequence[SimpleNamespace], ring: Words, features: Words, total: int
) -> dict[str, NDArray]:
    """Inputs of `total` clocks that fill the FIFOs and feature memory."""
    columns = component.columns
    beats = ring.reshape(len(ring), columns, -1, BEAT_BYTES).swapaxes(1, 2).reshape(-1, columns * BEAT_BYTES)
    assert max(len(beats) - BEATS, len(commands) - COMMANDS) < 0, "more than the FIFOs hold"
    loads, load_push = _loads(component.config, component.lanes, features, total)
    return {
        "load_push": load_push,
        "load": loads,
        "command_push": (np.arange(total) < len(commands)).astype(np.uint8),
        "command": _rows(np.stack([_packed(component.engine, f) for f in commands]), total),
        "beat_push": np.where(np.arange(total) < len(beats), (1 << columns) - 1, 0).astype(np.uint8),
        "beat": _rows(beats, total),
        "dump_push": np.zeros(total, np.uint8),
        "dump": np.zeros(total, np.int64),
        "go": np.zeros(total, np.uint8),
        "pace": np.zeros(total, np.uint8),
        "others": np.zeros(total, np.uint8),
    }


def _during(inputs: dict[str, NDArray], columns: int, begin: int, pace: Words | None, others: Words | None) -> None:
    """Lets the engine run."""
    inputs["go"][begin:] = 1
    inputs["pace"][begin if pace is not None else 0 :] = (1 << columns) - 1
    for name, given in (("pace", pace), ("others", others)):
        if given is not None:
            inputs[name][begin : begin + len(given)] = given


def stalls(trace: Trace) -> dict[str, int]:
    """Clocks in which the array did not work, by cause."""
    counts = np.bincount(trace.stall[~trace.active], minlength=len(STALLS))
    return {name: int(count) for name, count in zip(STALLS, counts, strict=True)}


def _packed(engine: str, f: SimpleNamespace) -> Words:
    """A command as bytes."""
    value, at = 0, 0
    layout = command_layout(engine)
    for name, shape in layout.members.items():
        width = shape.width
        value |= (int(getattr(f, name)) & ((1 << width) - 1)) << at
        at += width
    return np.frombuffer(value.to_bytes(-(-at // 8), "little"), np.uint8)


def _rows(rows: Words, total: int) -> Words:
    """Rows, followed by zeros."""
    return np.concatenate([rows, np.zeros((total - len(rows), rows.shape[1]), np.uint8)])


def _loads(config: Config, lanes: int, features: Words, total: int) -> tuple[Words, Words]:
    """Requests that fill feature memory, one every other clock, and their push bits."""
    layout = feature_write_request(config, lanes)
    rows, push = np.zeros((total, -(-layout.size // 8)), np.uint8), np.zeros(total, np.uint8)
    for number, base in enumerate(range(0, config.feature_words, lanes)):
        value = 0
        count = min(lanes, config.feature_words - base)
        words = int.from_bytes(features[base : base + count].tobytes(), "little")
        addresses = sum((base + lane) % (1 << ADDRESS_BITS) << ADDRESS_BITS * lane for lane in range(lanes))
        for name, part in {"active": (1 << count) - 1, "address": addresses, "words": words, "last": 0}.items():
            value |= part << layout[name].offset
        rows[2 * number] = np.frombuffer(value.to_bytes(rows.shape[1], "little"), np.uint8)
        push[2 * number] = 1
    return rows, push
