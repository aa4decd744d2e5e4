"""What `load` and `store` share: how a command's runs are dealt to the ports, and which ports must wait for a bank.

`Runs` makes one run a clock and deals run k to port k mod ports. Each port gets two streams: where the run's bytes are (for
`BurstCutter`), and where its words are (for the engine's port). Addresses are sums; nothing multiplies. After the last run, the end
of the command goes to every port, so that an engine can tell when all ports have passed it.
"""

from amaranth import Cat, Const, Module, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import ceil_log2

from cnna.hw.base.ports import command_layout
from cnna.hw.base.queues import RegisteredFifo
from cnna.hw.dma.bursts import RUN_BITS, ByteRun
from cnna.hw.dma.segments import BEAT_ADDRESS_BITS, BEAT_SHIFT, SEGMENT_BASES, SEGMENT_SIZES, SegmentCheck
from cnna.hw.units.waits import COUNTS, UnitWaiter, waits_of
from cnna.spec.config import Config
from cnna.spec.machine import BUS_BITS
from cnna.spec.regmap import ADDRESS_BITS, COUNTED


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

        walk, turn, base = Signal(RunPosition), Signal(self.config.ports, init=1), Signal(BUS_BITS)
        dealing, room = Signal(), Signal()  # dealing: runs, then to all ports the end
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
        byte_run, word_run, before_last, rooms = Signal(ByteRun), Signal(WordRun), Signal(RUN_BITS), []
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
            walk.next_words.eq(command.fm + command.fm_block),
            walk.runs_left.eq(command.runs - 1),
            walk.blocks_left.eq(command.blocks - 1),
            walk.last_run.eq(command.runs == 1),
            walk.last_block.eq(command.blocks == 1),
            walk.end.eq(0),
        ]

    def _step(self, m: Module, walk: data.View) -> None:
        """Goes to the next run, which after a block's last run is in the next block."""
        command = self.command.payload
        with m.If(walk.last_run):
            m.d.sync += [
                walk.bytes.eq(walk.next_bytes),
                walk.words.eq(walk.next_words),
                walk.next_bytes.eq(walk.next_bytes + command.ddr_block[BEAT_SHIFT:]),
                walk.next_words.eq(walk.next_words + command.fm_block),
                walk.runs_left.eq(command.runs - 1),
                walk.blocks_left.eq(walk.blocks_left - 1),
                walk.last_run.eq(command.runs == 1),
                walk.last_block.eq(walk.blocks_left == 1),
                walk.end.eq(walk.last_block),
            ]
        with m.Else():
            m.d.sync += [
                walk.bytes.eq(walk.bytes + command.ddr_run[BEAT_SHIFT:]),
                walk.words.eq(walk.words + command.fm_run),
                walk.runs_left.eq(walk.runs_left - 1),
                walk.last_run.eq(walk.runs_left == 1),
            ]


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
