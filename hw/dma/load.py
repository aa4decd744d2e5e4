"""The load engine: copies runs of feature words from DDR into feature memory.

`Runs` deals a command's runs to the ports. On each port, `LoadPort` reserves room, asks its read master for bursts, and unpacks
their beats into words. The engine joins words of ports that need different banks into one request to feature memory each clock.
"""

from amaranth import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from cnna.hw.base.ports import FeatureWrite, ReadClient, command_layout
from cnna.hw.base.queues import RegisteredFifo, SkidBuffer
from cnna.hw.base.timing import tally
from cnna.hw.dma.bursts import RUN_BITS, BurstCutter, ByteRun
from cnna.hw.dma.runs import Runs, WordRun, bank_conflicts
from cnna.hw.dma.segments import SEGMENT_BASES, SEGMENT_SIZES
from cnna.hw.units.waits import COUNTS
from cnna.spec.config import Config
from cnna.spec.machine import BEAT_BITS, BURST_BEATS, LOAD_ROOM_BEATS, RUNS_AHEAD
from cnna.spec.regmap import ADDRESS_BITS, COUNT_BITS, COUNTED

COMMANDS = 2 * RUNS_AHEAD  # more than can be dealt and not finished: each has an end in a port's queue, or was there


def group_layout(config: Config) -> data.StructLayout:
    """The words of one beat, as lanes of a feature memory request; or the end of a command."""
    lanes = config.beat_words
    return data.StructLayout(
        {
            "end": unsigned(1),
            "active": unsigned(lanes),
            "address": data.ArrayLayout(ADDRESS_BITS, lanes),
            "words": data.ArrayLayout(8 * config.ci, lanes),
        }
    )


class LoadPort(wiring.Component):
    """One port's share: its runs' beats, unpacked into `groups`, and the ends of commands. `groups` comes from registers."""

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "byte_runs": In(stream.Signature(ByteRun)),
                "word_runs": In(stream.Signature(WordRun)),
                "client": Out(ReadClient()),
                "groups": Out(stream.Signature(group_layout(config))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.bursts = bursts = BurstCutter()
        m.submodules.beats = beats = RegisteredFifo(BEAT_BITS, LOAD_ROOM_BEATS, late=True)
        connect(m, flipped(self.byte_runs), bursts.runs)
        room, roomy, spent, freed = Signal(range(LOAD_ROOM_BEATS + 1), init=LOAD_ROOM_BEATS), Signal(init=1), Signal(5), Signal()
        burst, beat, asked = self.client.burst, self.client.beat, Signal()
        m.d.comb += [
            burst.valid.eq(bursts.bursts.valid & roomy),
            burst.payload.eq(bursts.bursts.payload),
            bursts.bursts.ready.eq(burst.ready & roomy),
            asked.eq(burst.valid & burst.ready),
            bursts.next.eq(1),
            beats.push.eq(beat.valid),
            beats.item.eq(beat.payload.data),
        ]
        m.d.sync += [
            spent.eq(Mux(asked, burst.payload.beats, 0)),
            freed.eq(beats.o.valid & beats.o.ready),
            room.eq(room - spent + freed),
            # `room` does not yet include bursts asked for now and a clock ago
            roomy.eq((room >= 3 * BURST_BEATS) | ((room >= BURST_BEATS) & ~asked & (spent == 0))),
        ]
        self._unpack(m, beats.o)
        return m

    def _unpack(self, m: Module, beats: stream.Interface) -> None:
        """Gives each beat the addresses of its words."""
        lanes = self.config.beat_words
        m.submodules.pair = pair = SkidBuffer(group_layout(self.config))
        connect(m, pair.o, flipped(self.groups))
        address, left, last = Signal(ADDRESS_BITS), Signal(RUN_BITS), Signal(2)
        final, busy, end = Signal(), Signal(), Signal()
        take, fetch, group, run = Signal(), Signal(), pair.i.payload, self.word_runs.payload
        m.d.comb += [
            pair.i.valid.eq(busy & (end | beats.valid)),
            take.eq(pair.i.valid & pair.i.ready),
            beats.ready.eq(busy & ~end & pair.i.ready),
            group.end.eq(end),
            group.words.eq(beats.payload),
            group.active.eq(Cat(1, *(~final | (last >= lane) for lane in range(1, lanes))) & (~end).replicate(lanes)),
            fetch.eq(~busy | (take & (final | end))),
            self.word_runs.ready.eq(fetch),
        ]
        m.d.comb += [group.address[lane].eq(address + lane) for lane in range(lanes)]
        with m.If(take):
            m.d.sync += [address.eq(address + lanes), left.eq(left - 1), final.eq(left == 1)]
        with m.If(fetch):
            m.d.sync += [busy.eq(self.word_runs.valid), address.eq(run.address), last.eq(run.last), end.eq(run.end)]
            m.d.sync += [left.eq(run.more), final.eq(run.more == 0)]


class Load(wiring.Component):
    """Runs commands in order. It reads DDR ahead for the next command, but writes that one's first word after this one's last.

    `unit` pulses when every reader can see all of a command's words. `busy` is set from a command's arrival until then. `number`
    counts the commands since reset whose words have all been offered to feature memory: it numbers the command that `write` is for.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "command": In(stream.Signature(command_layout("load"))),
                "segments": In(SEGMENT_BASES),
                "sizes": In(SEGMENT_SIZES),
                "done": In(COUNTS),
                "clients": Out(ReadClient()).array(config.ports),
                "write": Out(FeatureWrite(config, config.ports * config.beat_words)),
                "unit": Out(1),
                "busy": Out(1),
                "blocked": Out(len(COUNTED)),
                "outside": Out(1),
                "number": Out(COUNT_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.runs = runs = Runs(self.config, "load", RUNS_AHEAD)
        connect(m, flipped(self.command), runs.command)
        m.d.comb += [runs.segments.eq(self.segments), runs.sizes.eq(self.sizes), self.outside.eq(runs.outside)]
        m.d.comb += [runs.done.eq(self.done), self.blocked.eq(runs.blocked)]
        ports = [LoadPort(self.config) for _ in range(self.config.ports)]
        for number, port in enumerate(ports):
            m.submodules[f"port{number}"] = port
            connect(m, runs.byte_runs[number], port.byte_runs)
            connect(m, runs.word_runs[number], port.word_runs)
            connect(m, port.client, flipped(self.clients[number]))
        self._join(m, [port.groups for port in ports])

        dealt = Signal()
        begun = tally(m, COMMANDS, dealt, self.write.done)  # dealt and not finished
        m.d.sync += [dealt.eq(runs.command.valid & runs.command.ready), self.unit.eq(self.write.done)]
        m.d.comb += self.busy.eq(self.command.valid | dealt | begun.some | self.unit)
        return m

    def _join(self, m: Module, groups: list[stream.Interface]) -> None:
        """Joins the groups of ports that need different banks into one request, which may change while it waits.

        A port at a command's end waits for the others. Then a request without words asks for `done`.
        """
        request, ended, lanes = self.write.request, Signal(), self.config.beat_words
        goes = [~clash for clash in bank_conflicts(self.config, groups)]
        m.d.comb += [
            ended.eq(Cat(group.valid & group.payload.end for group in groups).all()),
            request.valid.eq(Cat(group.valid & ~group.payload.end for group in groups).any() | ended),
            request.payload.last.eq(ended),
            request.payload.active.eq(
                Cat(group.payload.active & (group.valid & go).replicate(lanes) for group, go in zip(groups, goes, strict=True))
            ),
            request.payload.address.eq(Cat(group.payload.address for group in groups)),
            request.payload.words.eq(Cat(group.payload.words for group in groups)),
        ]
        for group, go in zip(groups, goes, strict=True):
            m.d.comb += group.ready.eq(request.ready & go & (~group.payload.end | ended))
        m.d.sync += self.number.eq(self.number + (ended & request.ready))
