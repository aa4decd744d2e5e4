"""What `load` and `store` share: how a command's word runs are dealt to the ports, and which ports must wait for a bank.

`Runs` makes one run a clock and deals run k to port k mod ports. Each port gets two streams: where the run's bytes are (for
`BurstCutter`), and where its words are (for `RunBeats`). Addresses are sums; nothing multiplies. After the last run, the end of the
command goes to every port, so that an engine can tell when all ports have passed it. `RunBeats` steps through a port's runs beat by
beat.
"""

from collections.abc import Sequence

from amaranth import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import ceil_log2

from cnna.hw.base.ports import command_layout
from cnna.hw.base.queues import RegisteredFifo
from cnna.hw.base.timing import tally
from cnna.hw.dma.bursts import RUN_BITS, ByteRun
from cnna.hw.dma.segments import BEAT_ADDRESS_BITS, BEAT_SHIFT, SEGMENT_BASES, SEGMENT_SIZES, SegmentCheck
from cnna.hw.units.waits import COUNTS, UnitWaiter, waits_of
from cnna.spec.config import Config
from cnna.spec.machine import BUS_BITS, RUNS_AHEAD
from cnna.spec.regmap import ADDRESS_BITS, COUNT_BITS, COUNTED, DECK_BIT

COMMANDS = 2 * RUNS_AHEAD  # more than can be dealt and not ended: each has an end in a port's queue, or just behind it


class WordRun(data.Struct):
    """A run's place in feature memory, or the end of a command (then the other members mean nothing)."""

    address: unsigned(ADDRESS_BITS)
    more: unsigned(RUN_BITS)  # beats after the first
    last: unsigned(2)  # words of the last beat after its first
    end: unsigned(1)


class RunPosition(data.Struct):
    """Where `Runs` stands: the run to be dealt next, and what follows it."""

    bytes: unsigned(BEAT_ADDRESS_BITS)  # of the run
    words: unsigned(ADDRESS_BITS)
    next_bytes: unsigned(BEAT_ADDRESS_BITS)  # of the next block's first run
    next_words: unsigned(ADDRESS_BITS)
    runs_left: unsigned(16)  # in the block, after this run
    blocks_left: unsigned(16)
    last_run: unsigned(1)
    last_block: unsigned(1)
    end: unsigned(1)  # no run is left: the end itself is dealt


class Runs(wiring.Component):
    """Waits until the command's waits are met, then deals its runs. The command stays on `command` until all are dealt.

    A port's streams hold `ahead` runs. `blocked` names the engines that it waits for. `outside` pulses for a run that does not lie
    in its segment (`segments.py`).
    """

    def __init__(self, config: Config, engine: str, ahead: int) -> None:
        self.config, self.ahead = config, ahead
        super().__init__(
            {
                "command": In(stream.Signature(command_layout(engine))),
                "segments": In(SEGMENT_BASES),
                "sizes": In(SEGMENT_SIZES),
                "done": In(COUNTS),
                "blocked": Out(len(COUNTED)),
                "outside": Out(1),
                "byte_runs": Out(stream.Signature(ByteRun)).array(config.ports),
                "word_runs": Out(stream.Signature(WordRun)).array(config.ports),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.waiter = waiter = UnitWaiter()
        command = self.command.payload
        m.d.comb += [waiter.waits.eq(waits_of(command)), waiter.done.eq(self.done), self.blocked.eq(waiter.blocked)]

        walk = Signal(RunPosition)
        turn = Signal(self.config.ports, init=1)
        base = Signal(BUS_BITS)
        dealing = Signal()  # runs, then to all ports the end
        room = Signal()
        m.submodules.bound = bound = SegmentCheck(RUN_BITS)
        self._queues(m, walk, turn & (dealing & room).replicate(len(turn)), room, bound.more)
        m.d.comb += [
            bound.sizes.eq(self.sizes),
            bound.segment.eq(command.seg),
            bound.at.eq(walk.bytes),
            bound.check.eq(dealing & room & ~walk.end),
            self.outside.eq(bound.outside),
        ]
        with m.FSM(name="runs"):
            with m.State("IDLE"):
                m.d.sync += [base.eq(self.segments[command.seg]), turn.eq(1)]
                with m.If(self.command.valid):
                    m.d.comb += waiter.check.eq(1)
                    m.next = "BASE"
            with m.State("BASE"):
                m.d.sync += [bound.origin.eq(base[BEAT_SHIFT:]), base.eq(base + command.ddr)]
                m.next = "WAIT"
            with m.State("WAIT"):
                self._first(m, walk, base)
                with m.If(waiter.clear):
                    m.d.sync += dealing.eq(1)
                    m.next = "DEAL"
            with m.State("DEAL"), m.If(room):
                m.d.sync += turn.eq(Cat(turn[-1], turn[:-1]))
                self._step(m, walk)
                with m.If(walk.last_run & walk.last_block):
                    m.d.sync += turn.eq(~0)
                    m.next = "END"
            with m.State("END"):
                m.d.comb += self.command.ready.eq(room)
                with m.If(room):
                    m.d.sync += dealing.eq(0)
                    m.next = "IDLE"
        return m

    def _queues(self, m: Module, walk: data.View, write: Value, room: Signal, more: Signal) -> None:
        """Makes a queue for each port and kind of run. write[p] puts the run into both queues of port p.

        `room`: all queues have room. It is a clock old, so the queues have a spare place. `more`: beats of a run after its first.
        """
        command, beat_words = self.command.payload, self.config.beat_words
        byte_run = Signal(ByteRun)
        word_run = Signal(WordRun)
        before_last = Signal(RUN_BITS)
        rooms = []
        m.d.sync += before_last.eq(command.run - 1)
        lane_bits = beat_words.bit_length() - 1
        m.d.comb += [
            byte_run.address.eq(walk.bytes),
            word_run.address.eq(walk.words),
            word_run.last.eq(before_last[:lane_bits]),
            more.eq(before_last[lane_bits:]),
        ]
        for run in (byte_run, word_run):
            m.d.comb += [run.more.eq(more), run.end.eq(walk.end)]
        for port in range(self.config.ports):
            for kind, run, out in (("byte", byte_run, self.byte_runs[port]), ("word", word_run, self.word_runs[port])):
                m.submodules[f"{kind}_runs{port}"] = queue = RegisteredFifo(run.shape(), self.ahead, spare=1)
                m.d.comb += [queue.item.eq(run), queue.push.eq(write[port])]
                connect(m, queue.o, flipped(out))
                rooms.append(queue.room)
        m.d.sync += room.eq(Cat(rooms).all())

    def _first(self, m: Module, walk: data.View, base: Signal) -> None:
        """Goes to run 0 of block 0."""
        command = self.command.payload
        m.d.sync += [
            walk.bytes.eq(base[BEAT_SHIFT:]),
            walk.words.eq(command.fm),
            walk.next_bytes.eq(base[BEAT_SHIFT:] + command.ddr_block[BEAT_SHIFT:]),
            walk.next_words.eq(self._next_block(command.fm)),
            walk.runs_left.eq(command.runs - 1),
            walk.blocks_left.eq(command.blocks - 1),
            walk.last_run.eq(command.runs == 1),
            walk.last_block.eq(command.blocks == 1),
            walk.end.eq(0),
        ]

    def _next_block(self, words: Value) -> Value:
        """The address of the next block's first run. With two decks, blocks lie in them by turns."""
        step = self.command.payload.fm_block
        if self.config.depth == 1:
            return words + step
        return Cat((words + Mux(words[DECK_BIT], step, 0))[:DECK_BIT], ~words[DECK_BIT])

    def _within_deck(self, address: Value, words: Value) -> Value:
        """An address in the same deck as `words`, if there are two."""
        return address if self.config.depth == 1 else Cat(address[:DECK_BIT], words[DECK_BIT])

    def _step(self, m: Module, walk: data.View) -> None:
        """Goes to the next run, which after a block's last run is in the next block."""
        command = self.command.payload
        with m.If(walk.last_run):
            m.d.sync += [
                walk.bytes.eq(walk.next_bytes),
                walk.words.eq(walk.next_words),
                walk.next_bytes.eq(walk.next_bytes + command.ddr_block[BEAT_SHIFT:]),
                walk.next_words.eq(self._next_block(walk.next_words)),
                walk.runs_left.eq(command.runs - 1),
                walk.blocks_left.eq(walk.blocks_left - 1),
                walk.last_run.eq(command.runs == 1),
                walk.last_block.eq(walk.blocks_left == 1),
                walk.end.eq(walk.last_block),
            ]
        with m.Else():
            m.d.sync += [
                walk.bytes.eq(walk.bytes + command.ddr_run[BEAT_SHIFT:]),
                walk.words.eq(self._within_deck(walk.words + command.fm_run, walk.words)),
                walk.runs_left.eq(walk.runs_left - 1),
                walk.last_run.eq(walk.runs_left == 1),
            ]


def run_engine_members(engine: str) -> dict[str, wiring.Member]:
    """What `Load` and `Store` show of a command, beside their clients and their port of feature memory."""
    return {
        "command": In(stream.Signature(command_layout(engine))),
        "segments": In(SEGMENT_BASES),
        "sizes": In(SEGMENT_SIZES),
        "done": In(COUNTS),
        "unit": Out(1),
        "busy": Out(1),
        "blocked": Out(len(COUNTED)),
        "outside": Out(1),
        "number": Out(COUNT_BITS),
    }


def deal_runs(m: Module, engine: wiring.Component, name: str, ports: Sequence[wiring.Component], ended: Value) -> None:
    """Deals the runs of an engine's commands to its ports, and drives `unit`, `busy`, `blocked` and `outside` of the engine.

    `ended` pulses at the end of each command; `unit` follows it. The ports and their `Runs` become submodules.
    """
    m.submodules.runs = runs = Runs(engine.config, name, RUNS_AHEAD)
    connect(m, flipped(engine.command), runs.command)
    for number, port in enumerate(ports):
        m.submodules[f"port{number}"] = port
        connect(m, runs.byte_runs[number], port.byte_runs)
        connect(m, runs.word_runs[number], port.word_runs)
        connect(m, port.client, flipped(engine.clients[number]))
    dealt = Signal()
    begun = tally(m, COMMANDS, dealt, ended)  # dealt and not ended
    m.d.sync += [dealt.eq(runs.command.valid & runs.command.ready), engine.unit.eq(ended)]
    m.d.comb += [
        runs.segments.eq(engine.segments),
        runs.sizes.eq(engine.sizes),
        runs.done.eq(engine.done),
        engine.blocked.eq(runs.blocked),
        engine.outside.eq(runs.outside),
        engine.busy.eq(engine.command.valid | dealt | begun.some | engine.unit),
    ]


def run_beat_layout(config: Config) -> data.StructLayout:
    """The words of one beat as lanes of a request to feature memory; or the end of a command, which has no active lane."""
    lanes = config.beat_words
    return data.StructLayout({"end": unsigned(1), "active": unsigned(lanes), "address": data.ArrayLayout(ADDRESS_BITS, lanes)})


class RunBeats(wiring.Component):
    """Steps through a port's runs beat by beat, and passes on the ends of commands. `beat.valid` comes from a register."""

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__({"runs": In(stream.Signature(WordRun)), "beat": Out(stream.Signature(run_beat_layout(config)))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes, run, beat = self.config.beat_words, self.runs.payload, self.beat.payload
        address = Signal(ADDRESS_BITS)
        left = Signal(RUN_BITS)  # beats of the run after this one
        last = Signal(2)  # words of the run's last beat after its first
        final = Signal()
        busy = Signal()
        end = Signal()
        take = Signal()
        fetch = Signal()
        m.d.comb += [
            self.beat.valid.eq(busy),
            beat.end.eq(end),
            beat.active.eq(Cat(1, *(~final | (last >= lane) for lane in range(1, lanes))) & (~end).replicate(lanes)),
            take.eq(busy & self.beat.ready),
            fetch.eq(~busy | (take & (final | end))),
            self.runs.ready.eq(fetch),
        ]
        m.d.comb += [beat.address[lane].eq(address + lane) for lane in range(lanes)]
        with m.If(take):
            m.d.sync += [address.eq(address + lanes), left.eq(left - 1), final.eq(left == 1)]
        with m.If(fetch):
            m.d.sync += [
                busy.eq(self.runs.valid),
                end.eq(run.end),
                address.eq(run.address),
                left.eq(run.more),
                last.eq(run.last),
                final.eq(run.more == 0),
            ]
        return m


def bank_conflicts(config: Config, beats: list[stream.Interface]) -> list[Value]:
    """Decides for each port whether it must wait this clock. Two beats conflict when they need the same bank of feature memory.

    The higher-numbered port waits, even if the lower one is itself waiting. The lowest port that has a beat never waits. If
    conflicting beats went together, they would delay their whole request. Ports whose runs lie a multiple of the banks apart would
    also stay in step, and share one bank after another. A port that waits falls a beat behind, and no longer conflicts.

    beats: streams with the `active` lanes and their `address`es.
    """
    found: list[Value] = []
    for number, beat in enumerate(beats):
        shared = [lower.valid & _shared(config, lower.payload, beat.payload) for lower in beats[:number]]
        found.append(Cat(shared).any() if shared else Const(0))
    return found


def _shared(config: Config, one: Value, other: Value) -> Value:
    """Whether active lanes of two beats need banks of the same number, in any regions."""
    lanes, bits = range(config.beat_words), ceil_log2(config.banks)
    return Cat(
        one.active[a] & other.active[b] & (one.address[a][:bits] == other.address[b][:bits]) for a in lanes for b in lanes
    ).any()
