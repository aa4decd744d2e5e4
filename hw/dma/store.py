"""The store engine: copies word runs from feature memory into DDR.

`Runs` deals a command's runs to the ports. Each clock, one request asks feature memory for the words of ports that need different
banks. On each port, `StorePort` gathers the words into beats, and gives its write master a burst once all of its beats are there.
"""

from amaranth import Cat, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from cnna.hw.base.ports import FeatureRead, WriteBeat, WriteClient
from cnna.hw.base.queues import RegisteredFifo, SkidBuffer
from cnna.hw.base.timing import tally
from cnna.hw.dma.bursts import BurstCutter, BurstOffer, ByteRun
from cnna.hw.dma.runs import RunBeats, WordRun, bank_conflicts, deal_runs, run_engine_members
from cnna.spec.config import Config
from cnna.spec.machine import BEAT_BITS, STORE_ROOM_BEATS
from cnna.spec.regmap import ADDRESS_BITS


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
        m.submodules.cutter = cutter = BurstCutter()
        m.submodules.offer = offer = BurstOffer(STORE_ROOM_BEATS)
        connect(m, beats.o, flipped(self.client.beat))
        connect(m, flipped(self.byte_runs), cutter.runs)
        connect(m, cutter.bursts, offer.bursts)
        connect(m, offer.o, flipped(self.client.burst))
        m.d.comb += [
            beats.item.data.eq(self.answer.payload.words),
            beats.item.strobe.eq(Cat(lane.replicate(self.config.ci) for lane in self.answer.payload.active)),
            beats.push.eq(self.answer.valid),
            offer.pushed.eq(self.answer.valid),
            offer.done.eq(self.client.done),
            self.at_end.eq(cutter.at_end & ~offer.unanswered),
            cutter.next.eq(self.next),
        ]
        self._ask(m, beats.o)
        return m

    def _ask(self, m: Module, beats: stream.Interface) -> None:
        """Asks for the words of one beat after another while the queue has room for the answers."""
        m.submodules.run_beats = run_beats = RunBeats(self.config)
        m.submodules.asking = asking = SkidBuffer(ask_layout(self.config))
        connect(m, flipped(self.word_runs), run_beats.runs)
        connect(m, asking.o, flipped(self.asks))
        here, ask, asked = run_beats.beat, asking.i, Signal()
        room = tally(m, STORE_ROOM_BEATS, asked, beats.valid & beats.ready).room
        m.d.comb += [
            ask.valid.eq(here.valid & ~here.payload.end & room),
            ask.payload.active.eq(here.payload.active),
            ask.payload.address.eq(here.payload.address),
            asked.eq(ask.valid & ask.ready),
            here.ready.eq(here.payload.end | (ask.ready & room)),  # nothing is asked for an end
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
                **run_engine_members("store"),
                "clients": Out(WriteClient()).array(config.ports),
                "read": Out(FeatureRead(config, lanes, lanes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ports = [StorePort(self.config) for _ in range(self.config.ports)]
        ended = Signal()
        deal_runs(m, self, "store", ports, ended)
        lanes, response = self.config.beat_words, self.read.response
        for number, port in enumerate(ports):
            active = response.payload.tag[number * lanes : (number + 1) * lanes]
            words = response.payload.words.as_value()[number * BEAT_BITS : (number + 1) * BEAT_BITS]
            m.d.comb += [port.answer.valid.eq(response.valid & active[0])]
            m.d.comb += [port.answer.payload.active.eq(active), port.answer.payload.words.eq(words)]

        self._join(m, ports)
        m.d.sync += [ended.eq(Cat(port.at_end for port in ports).all() & ~ended), self.number.eq(self.number + ended)]
        m.d.comb += [port.next.eq(ended) for port in ports]
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
