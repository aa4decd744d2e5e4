"""The store engine: copies runs of feature words from feature memory into DDR.

`Runs` deals a command's runs to the ports; the ports' words are asked of feature memory in one request a clock. On each
port `StorePort` gathers what comes back into beats and gives its write master a burst when all its beats are there.
"""

from amaranth import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out, connect, flipped

from cnna.hw.command import command_layout
from cnna.hw.config import Config
from cnna.hw.ports import BEAT_BITS, FeatureRead, WriteBeat, WriteClient
from cnna.hw.regmap import ADDRESS_BITS, COUNT_BITS, COUNTED
from cnna.hw.runs import RUN_BITS, SEGMENT_BASES, Bursts, ByteRun, Runs, WordRun
from cnna.hw.tokens import COUNTS

ROOM_BEATS = 128  # a port's FIFO: hides the wait for the last B of a command
RUNS_AHEAD = 64
OUTSTANDING_BITS = 6


def ask_layout(config: Config) -> data.StructLayout:
    """The words of one beat, to be read."""
    lanes = config.beat_words
    return data.StructLayout({"active": unsigned(lanes), "address": data.ArrayLayout(ADDRESS_BITS, lanes)})


def answer_layout(config: Config) -> data.StructLayout:
    """The words of one beat, read; a lane that is not active is not to be written to DDR."""
    return data.StructLayout({"active": unsigned(config.beat_words), "words": unsigned(BEAT_BITS)})


class StorePort(wiring.Component):
    """One port's share. `at_end` is set when every burst of a command has its B response, until `next`."""

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
        m.submodules.beats = beats = SyncFIFOBuffered(width=len(Signal(WriteBeat).as_value()), depth=ROOM_BEATS)
        into, out = Signal(WriteBeat), self.client.beat
        m.d.comb += [
            into.data.eq(self.answer.payload.words),
            into.strobe.eq(Cat(lane.replicate(self.config.ci) for lane in self.answer.payload.active)),
            beats.w_en.eq(self.answer.valid),
            beats.w_data.eq(into),
            out.valid.eq(beats.r_rdy),
            out.payload.eq(beats.r_data),
            beats.r_en.eq(out.ready),
        ]
        self._ask(m, out.valid & out.ready)
        self._burst(m)
        return m

    def _ask(self, m: Module, freed: Signal) -> None:
        """Asks for the words of a beat at a time while the FIFO has room for their answer."""
        lanes = self.config.beat_words
        address, left, busy = Signal(ADDRESS_BITS), Signal(RUN_BITS), Signal()
        room, roomy, take, fetch = Signal(range(ROOM_BEATS + 1), init=ROOM_BEATS), Signal(init=1), Signal(), Signal()
        room_next = room - take + freed
        m.d.sync += [room.eq(room_next), roomy.eq(room_next != 0)]
        m.d.comb += [
            self.asks.valid.eq(busy & roomy),
            self.asks.payload.active.eq(Cat(left > lane for lane in range(lanes))),
            take.eq(self.asks.valid & self.asks.ready),
            fetch.eq(~busy | (take & (left <= lanes))),
            self.word_runs.ready.eq(fetch),
        ]
        m.d.comb += [self.asks.payload.address[lane].eq(address + lane) for lane in range(lanes)]
        with m.If(take):
            m.d.sync += [address.eq(address + lanes), left.eq(left - lanes)]
        with m.If(fetch):
            run = self.word_runs.payload
            m.d.sync += [busy.eq(self.word_runs.valid & ~run.end), address.eq(run.address), left.eq(run.words)]

    def _burst(self, m: Module) -> None:
        """Offers a burst when its beats stand in the FIFO, and counts what has no B response yet."""
        m.submodules.bursts = bursts = Bursts()
        connect(m, flipped(self.byte_runs), bursts.runs)
        burst, client = bursts.bursts, self.client
        standing, unanswered, taken, whole = Signal(range(ROOM_BEATS + 1)), Signal(OUTSTANDING_BITS), Signal(), Signal()
        m.d.comb += [
            whole.eq(standing >= burst.payload.beats),
            client.burst.valid.eq(burst.valid & whole),
            client.burst.payload.address.eq(burst.payload.address),
            client.burst.payload.beats.eq(burst.payload.beats),
            burst.ready.eq(client.burst.ready & whole),
            taken.eq(client.burst.valid & client.burst.ready),
            self.at_end.eq(bursts.at_end & (unanswered == 0)),
            bursts.next.eq(self.next),
        ]
        m.d.sync += [
            standing.eq(standing - Mux(taken, burst.payload.beats, 0) + self.answer.valid),
            unanswered.eq(unanswered + taken - client.done),
        ]


class Store(wiring.Component):
    """Commands run in order: the next one's words are read ahead, but its first burst waits for this one's last B.

    `unit` pulses when a command's B responses have all come; `number` counts those commands since reset. `busy` is set
    from a command's arrival until then. `words` and `number` are what a testbench watches.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        lanes = config.ports * config.beat_words
        super().__init__(
            {
                "command": In(stream.Signature(command_layout("store"))),
                "segments": In(SEGMENT_BASES),
                "done": In(COUNTS),
                "clients": Out(WriteClient()).array(config.ports),
                "read": Out(FeatureRead(config, lanes, lanes)),
                "unit": Out(1),
                "busy": Out(1),
                "blocked": Out(len(COUNTED)),
                "number": Out(COUNT_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.runs = runs = Runs(self.config, "store", RUNS_AHEAD)
        connect(m, flipped(self.command), runs.command)
        m.d.comb += [runs.segments.eq(self.segments), runs.done.eq(self.done), self.blocked.eq(runs.blocked)]
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
        ended, begun = Signal(), Signal(8)  # begun: commands dealt whose end has not been passed
        m.d.comb += ended.eq(Cat(port.at_end for port in ports).all())
        m.d.comb += [port.next.eq(ended) for port in ports]
        m.d.sync += [begun.eq(begun + (runs.command.valid & runs.command.ready) - ended), self.unit.eq(ended)]
        m.d.sync += self.number.eq(self.number + ended)
        m.d.comb += self.busy.eq(self.command.valid | (begun != 0) | self.unit)
        return m

    def _join(self, m: Module, ports: list[StorePort]) -> None:
        """One request to feature memory from what the ports ask; its tag says which lanes were asked."""
        request, moves = self.read.request, Signal()
        m.d.comb += moves.eq(~request.valid | request.ready)
        m.d.comb += [port.asks.ready.eq(moves) for port in ports]
        active = Cat(Mux(port.asks.valid, port.asks.payload.active, 0) for port in ports)
        with m.If(moves):
            m.d.sync += [
                request.valid.eq(Cat(port.asks.valid for port in ports).any()),
                request.payload.active.eq(active),
                request.payload.tag.eq(active),
                request.payload.address.eq(Cat(port.asks.payload.address for port in ports)),
            ]
