"""The store engine: copies runs of feature words from feature memory into DDR.

`Runs` deals a command's runs to the ports. Each clock, one request asks feature memory for the words of ports that need different
banks. On each port, `StorePort` gathers the words into beats, and gives its write master a burst once all of its beats are there.
"""

from amaranth import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from cnna.hw.base.ports import FeatureRead, WriteBeat, WriteBurst, WriteClient, command_layout
from cnna.hw.base.queues import RegisteredFifo, SkidBuffer
from cnna.hw.base.timing import tally
from cnna.hw.dma.bursts import RUN_BITS, BurstCutter, ByteRun
from cnna.hw.dma.runs import Runs, WordRun, bank_conflicts
from cnna.hw.dma.segments import SEGMENT_BASES, SEGMENT_SIZES
from cnna.hw.units.waits import COUNTS
from cnna.spec.config import Config
from cnna.spec.machine import BEAT_BITS, RUNS_AHEAD, STORE_ROOM_BEATS, WRITES_OUTSTANDING
from cnna.spec.regmap import ADDRESS_BITS, COUNT_BITS, COUNTED

BURSTS = WRITES_OUTSTANDING + 2  # of a port, taken and not answered: on the bus, and on their way to it
COMMANDS = 2 * RUNS_AHEAD  # more than can be dealt and not passed: each has an end in a port's queue, or just behind it


def ask_layout(config: Config) -> data.StructLayout:
    """The words of one beat that are to be read."""
    lanes = config.beat_words
    return data.StructLayout({"active": unsigned(lanes), "address": data.ArrayLayout(ADDRESS_BITS, lanes)})


def answer_layout(config: Config) -> data.StructLayout:
    """The words of one beat as they were read. A lane that is not active is not written to DDR."""
    return data.StructLayout({"active": unsigned(config.beat_words), "words": unsigned(BEAT_BITS)})


class StorePort(wiring.Component):
    """One port's share. `at_end` is set from when every burst of a command has its B response until `next`."""

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "byte_runs": In(stream.Signature(ByteRun)),
                "word_runs": In(stream.Signature(WordRun)),
                "asks": Out(stream.Signature(ask_layout(config))),
                "answer": In(stream.Signature(answer_layout(config), always_ready=True)),
                "client": Out(WriteClient()),
                "at_end": Out(1),
                "next": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.beats = beats = RegisteredFifo(WriteBeat, STORE_ROOM_BEATS)
        connect(m, beats.o, flipped(self.client.beat))
        m.d.comb += [
            beats.item.data.eq(self.answer.payload.words),
            beats.item.strobe.eq(Cat(lane.replicate(self.config.ci) for lane in self.answer.payload.active)),
            beats.push.eq(self.answer.valid),
        ]
        self._ask(m, beats.o.valid & beats.o.ready)
        self._burst(m)
        return m

    def _ask(self, m: Module, freed: Value) -> None:
        """Asks for the words of one beat after another while the queue has room for the answers."""
        lanes = self.config.beat_words
        m.submodules.asking = pair = SkidBuffer(ask_layout(self.config))
        connect(m, pair.o, flipped(self.asks))
        address, left, last = Signal(ADDRESS_BITS), Signal(RUN_BITS), Signal(2)
        final, busy, take, fetch, run = Signal(), Signal(), Signal(), Signal(), self.word_runs.payload
        room = tally(m, STORE_ROOM_BEATS, take, freed).room
        m.d.comb += [
            pair.i.valid.eq(busy & room),
            pair.i.payload.active.eq(Cat(1, *(~final | (last >= lane) for lane in range(1, lanes)))),
            take.eq(pair.i.valid & pair.i.ready),
            fetch.eq(~busy | (take & final)),
            self.word_runs.ready.eq(fetch),
        ]
        m.d.comb += [pair.i.payload.address[lane].eq(address + lane) for lane in range(lanes)]
        with m.If(take):
            m.d.sync += [address.eq(address + lanes), left.eq(left - 1), final.eq(left == 1)]
        with m.If(fetch):
            m.d.sync += [busy.eq(self.word_runs.valid & ~run.end), address.eq(run.address), last.eq(run.last)]
            m.d.sync += [left.eq(run.more), final.eq(run.more == 0)]

    def _burst(self, m: Module) -> None:
        """Offers a burst when all of its beats are in the queue, and counts the bursts without a B response."""
        m.submodules.bursts = bursts = BurstCutter()
        m.submodules.offer = offer = SkidBuffer(WriteBurst)
        connect(m, flipped(self.byte_runs), bursts.runs)
        connect(m, offer.o, flipped(self.client.burst))
        burst = bursts.bursts
        standing, whole, taken = Signal(range(STORE_ROOM_BEATS + 1)), Signal(), Signal()
        unanswered = tally(m, BURSTS, taken, self.client.done)
        m.d.comb += [
            taken.eq(burst.valid & whole & offer.i.ready),
            burst.ready.eq(whole & offer.i.ready),
            offer.i.valid.eq(burst.valid & whole),
            offer.i.payload.eq(burst.payload),
            self.at_end.eq(bursts.at_end & ~unanswered.some),
            bursts.next.eq(self.next),
        ]
        m.d.sync += [
            standing.eq(standing - Mux(taken, burst.payload.beats, 0) + self.answer.valid),
            whole.eq(burst.valid & ~taken & (standing >= burst.payload.beats)),
        ]


class Store(wiring.Component):
    """Runs commands in order. It reads the next command's words ahead, but that one's first burst waits for this one's last B.

    `unit` pulses when all of a command's B responses have come; `number` counts these commands since reset, for a testbench. `busy`
    is set from a command's arrival until then.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        lanes = config.ports * config.beat_words
        super().__init__(
            {
                "command": In(stream.Signature(command_layout("store"))),
                "segments": In(SEGMENT_BASES),
                "sizes": In(SEGMENT_SIZES),
                "done": In(COUNTS),
                "clients": Out(WriteClient()).array(config.ports),
                "read": Out(FeatureRead(config, lanes, lanes)),
                "unit": Out(1),
                "busy": Out(1),
                "blocked": Out(len(COUNTED)),
                "outside": Out(1),
                "number": Out(COUNT_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.runs = runs = Runs(self.config, "store", RUNS_AHEAD)
        connect(m, flipped(self.command), runs.command)
        m.d.comb += [runs.segments.eq(self.segments), runs.sizes.eq(self.sizes), self.outside.eq(runs.outside)]
        m.d.comb += [runs.done.eq(self.done), self.blocked.eq(runs.blocked)]
        ports = [StorePort(self.config) for _ in range(self.config.ports)]
        lanes, response = self.config.beat_words, self.read.response
        for number, port in enumerate(ports):
            m.submodules[f"port{number}"] = port
            connect(m, runs.byte_runs[number], port.byte_runs)
            connect(m, runs.word_runs[number], port.word_runs)
            connect(m, port.client, flipped(self.clients[number]))
            active = response.payload.tag[number * lanes : (number + 1) * lanes]
            words = response.payload.words.as_value()[number * BEAT_BITS : (number + 1) * BEAT_BITS]
            m.d.comb += [port.answer.valid.eq(response.valid & active[0])]
            m.d.comb += [port.answer.payload.active.eq(active), port.answer.payload.words.eq(words)]

        self._join(m, ports)
        ended, dealt = Signal(), Signal()
        m.d.sync += dealt.eq(runs.command.valid & runs.command.ready)
        m.d.sync += ended.eq(Cat(port.at_end for port in ports).all() & ~ended)
        m.d.comb += [port.next.eq(ended) for port in ports]
        begun = tally(m, COMMANDS, dealt, ended)
        m.d.sync += [self.unit.eq(ended), self.number.eq(self.number + ended)]
        m.d.comb += self.busy.eq(self.command.valid | dealt | begun.some | self.unit)
        return m

    def _join(self, m: Module, ports: list[StorePort]) -> None:
        """Joins what ports ask of different banks into one request to feature memory, which may change while it waits.

        The tag tells which lanes were asked for.
        """
        request, asks, lanes = self.read.request, [port.asks for port in ports], self.config.beat_words
        goes = [~clash for clash in bank_conflicts(self.config, asks)]
        active = Cat(ask.payload.active & (ask.valid & go).replicate(lanes) for ask, go in zip(asks, goes, strict=True))
        m.d.comb += [
            request.valid.eq(Cat(ask.valid for ask in asks).any()),
            request.payload.active.eq(active),
            request.payload.tag.eq(active),
            request.payload.address.eq(Cat(ask.payload.address for ask in asks)),
        ]
        m.d.comb += [ask.ready.eq(request.ready & go) for ask, go in zip(asks, goes, strict=True)]
