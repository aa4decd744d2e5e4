"""The load engine: copies runs of feature words from DDR into feature memory.

`Runs` deals a command's runs to the ports; on each, `LoadPort` asks its read master for their bursts, with room reserved,
and unpacks the beats into words. The engine joins the ports' words into one request a clock to feature memory.
"""

from amaranth import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out, connect, flipped

from cnna.hw.command import command_layout
from cnna.hw.config import Config
from cnna.hw.ports import BEAT_BITS, BURST_BEATS, FeatureWrite, ReadClient
from cnna.hw.regmap import ADDRESS_BITS, COUNT_BITS, COUNTED
from cnna.hw.runs import RUN_BITS, SEGMENT_BASES, Bursts, ByteRun, Runs, WordRun
from cnna.hw.tokens import COUNTS

ROOM_BEATS = 256  # a port's FIFO: a beat a clock at up to 240 clocks latency
RUNS_AHEAD = 64  # runs of one beat that a port can have outstanding


def group_layout(config: Config) -> data.StructLayout:
    """The words of one beat: lanes of a feature memory request."""
    lanes = config.beat_words
    return data.StructLayout(
        {
            "active": unsigned(lanes),
            "address": data.ArrayLayout(ADDRESS_BITS, lanes),
            "words": data.ArrayLayout(8 * config.ci, lanes),
        }
    )


class LoadPort(wiring.Component):
    """One port's share: beats of its runs, unpacked. `at_end` waits at a command's end until `next`."""

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "byte_runs": In(stream.Signature(ByteRun)),
                "word_runs": In(stream.Signature(WordRun)),
                "client": Out(ReadClient()),
                "groups": Out(stream.Signature(group_layout(config))),
                "at_end": Out(1),
                "next": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.bursts = bursts = Bursts()
        m.submodules.beats = beats = SyncFIFOBuffered(width=BEAT_BITS, depth=ROOM_BEATS)
        connect(m, flipped(self.byte_runs), bursts.runs)
        room, roomy, asked = Signal(range(ROOM_BEATS + 1), init=ROOM_BEATS), Signal(init=1), Signal()
        burst, beat = self.client.burst, self.client.beat
        left = room - Mux(asked, burst.payload.beats, 0) + beats.r_en
        m.d.comb += [
            burst.valid.eq(bursts.bursts.valid & roomy),
            burst.payload.eq(bursts.bursts.payload),
            bursts.bursts.ready.eq(burst.ready & roomy),
            asked.eq(burst.valid & burst.ready),
            bursts.next.eq(1),
            beats.w_en.eq(beat.valid),
            beats.w_data.eq(beat.payload.data),
        ]
        m.d.sync += [room.eq(left), roomy.eq(left >= BURST_BEATS)]
        self._unpack(m, beats)
        return m

    def _unpack(self, m: Module, beats: SyncFIFOBuffered) -> None:
        """Gives each beat the addresses of the run that it belongs to."""
        lanes = self.config.beat_words
        address, left, busy, end = Signal(ADDRESS_BITS), Signal(RUN_BITS), Signal(), Signal()
        take, fetch, group = Signal(), Signal(), self.groups.payload
        m.d.comb += [
            self.groups.valid.eq(busy & ~end & beats.r_rdy),
            take.eq(self.groups.valid & self.groups.ready),
            beats.r_en.eq(take),
            group.words.eq(beats.r_data),
            group.active.eq(Cat(left > lane for lane in range(lanes))),
            self.at_end.eq(busy & end),
            fetch.eq(~busy | (take & (left <= lanes)) | (self.at_end & self.next)),
            self.word_runs.ready.eq(fetch),
        ]
        m.d.comb += [group.address[lane].eq(address + lane) for lane in range(lanes)]
        with m.If(take):
            m.d.sync += [address.eq(address + lanes), left.eq(left - lanes)]
        with m.If(fetch):
            run = self.word_runs.payload
            m.d.sync += [busy.eq(self.word_runs.valid), address.eq(run.address), left.eq(run.words), end.eq(run.end)]


class Load(wiring.Component):
    """Commands run in order: DDR is read ahead for the next one, but its first word is written after this one's last.

    `unit` pulses when a command's words can all be seen; `busy` is set from a command's arrival until then. `number` counts
    the commands since reset whose words have all been offered to feature memory: it numbers the one that `write` is for.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "command": In(stream.Signature(command_layout("load"))),
                "segments": In(SEGMENT_BASES),
                "done": In(COUNTS),
                "clients": Out(ReadClient()).array(config.ports),
                "write": Out(FeatureWrite(config, config.ports * config.beat_words)),
                "unit": Out(1),
                "busy": Out(1),
                "blocked": Out(len(COUNTED)),
                "number": Out(COUNT_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.runs = runs = Runs(self.config, "load", RUNS_AHEAD)
        connect(m, flipped(self.command), runs.command)
        m.d.comb += [runs.segments.eq(self.segments), runs.done.eq(self.done), self.blocked.eq(runs.blocked)]
        ports = [LoadPort(self.config) for _ in range(self.config.ports)]
        for number, port in enumerate(ports):
            m.submodules[f"port{number}"] = port
            connect(m, runs.byte_runs[number], port.byte_runs)
            connect(m, runs.word_runs[number], port.word_runs)
            connect(m, port.client, flipped(self.clients[number]))

        request, moves, ended = self.write.request, Signal(), Signal()
        m.d.comb += moves.eq(~request.valid | request.ready)
        with m.If(moves):
            groups = [port.groups for port in ports]
            m.d.sync += [
                request.valid.eq(Cat(group.valid for group in groups).any() | ended),
                request.payload.last.eq(ended),
                self.number.eq(self.number + request.payload.last),
                request.payload.active.eq(Cat(Mux(group.valid, group.payload.active, 0) for group in groups)),
                request.payload.address.eq(Cat(group.payload.address for group in groups)),
                request.payload.words.eq(Cat(group.payload.words for group in groups)),
            ]
        m.d.comb += [port.groups.ready.eq(moves) for port in ports]
        m.d.comb += ended.eq(Cat(port.at_end for port in ports).all() & moves)  # a request without words asks for `done`
        m.d.comb += [port.next.eq(ended) for port in ports]

        begun = Signal(8)  # commands dealt that are not finished
        m.d.sync += begun.eq(begun + (runs.command.valid & runs.command.ready) - self.write.done)
        m.d.sync += self.unit.eq(self.write.done)
        m.d.comb += self.busy.eq(self.command.valid | (begun != 0) | self.unit)
        return m
