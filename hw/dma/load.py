"""The load engine: copies word runs from DDR into feature memory.

`Runs` deals a command's runs to the ports. On each port, `LoadPort` reserves room, asks its read master for bursts, and gives the
words of each beat their addresses. The engine joins words of ports that need different banks into one request to feature memory
each clock.
"""

from amaranth import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from cnna.hw.base.ports import FeatureWrite, ReadClient
from cnna.hw.base.queues import RegisteredFifo, SkidBuffer
from cnna.hw.dma.bursts import BurstCutter, ByteRun, ask_with_room
from cnna.hw.dma.runs import RunBeats, WordRun, bank_conflicts, deal_runs, run_beat_layout, run_engine_members
from cnna.spec.config import Config
from cnna.spec.machine import BEAT_BITS, LOAD_ROOM_BEATS


def group_layout(config: Config) -> data.StructLayout:
    """`runs.run_beat_layout` with the words themselves."""
    return data.StructLayout({**run_beat_layout(config).members, "words": data.ArrayLayout(8 * config.ci, config.beat_words)})


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
        m.submodules.cutter = cutter = BurstCutter()
        m.submodules.arrived = arrived = RegisteredFifo(BEAT_BITS, LOAD_ROOM_BEATS, late=True)
        m.submodules.run_beats = run_beats = RunBeats(self.config)
        m.submodules.leaving = leaving = SkidBuffer(group_layout(self.config))
        connect(m, flipped(self.byte_runs), cutter.runs)
        connect(m, flipped(self.word_runs), run_beats.runs)
        connect(m, leaving.o, flipped(self.groups))
        ask_with_room(m, cutter.bursts, self.client.burst, LOAD_ROOM_BEATS, arrived.o.valid & arrived.o.ready)
        here, beat, group = run_beats.beat, self.client.beat, leaving.i
        come = Signal()  # the data of this beat; an end has none
        m.d.comb += [
            cutter.next.eq(1),
            arrived.push.eq(beat.valid),
            arrived.item.eq(beat.payload.data),
            come.eq(here.payload.end | arrived.o.valid),
            group.valid.eq(here.valid & come),
            group.payload.end.eq(here.payload.end),
            group.payload.active.eq(here.payload.active),
            group.payload.address.eq(here.payload.address),
            group.payload.words.eq(arrived.o.payload),
            here.ready.eq(group.ready & come),
            arrived.o.ready.eq(here.valid & ~here.payload.end & group.ready),
        ]
        return m


class Load(wiring.Component):
    """Runs commands in order. It reads DDR ahead for the next command, but writes that one's first word after this one's last.

    `unit` pulses when every reader can see all of a command's words. `busy` is set from a command's arrival until then. `number`
    counts the commands since reset whose words have all been offered to feature memory: it numbers the command that `write` is for.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                **run_engine_members("load"),
                "clients": Out(ReadClient()).array(config.ports),
                "write": Out(FeatureWrite(config, config.ports * config.beat_words)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ports = [LoadPort(self.config) for _ in range(self.config.ports)]
        deal_runs(m, self, "load", ports, self.write.done)
        self._join(m, [port.groups for port in ports])
        return m

    def _join(self, m: Module, groups: list[stream.Interface]) -> None:
        """Joins the groups of ports that need different banks into one request, which may change while it waits.

        A port at a command's end waits for the others. Then a request without words asks for `done`.
        """
        request = self.write.request
        ended = Signal()
        lanes = self.config.beat_words
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
