"""The head of the convolution engine: pairs words from feature memory with weights and feeds the array.

The array and the requantiser behind it cannot be stopped. So a step waits until its weight is in the ring. The last step of a group
also waits until the drain has time and room for the group's results: the requantiser takes half a group of one block a clock. If it
uses a table, it waits until that has been written as well.
"""

from amaranth import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.ports import RING_LATENCY, RingRead
from cnna.hw.base.timing import delayed
from cnna.hw.lanes.group_credit import GroupCredit
from cnna.hw.lanes.parameter_slots import SLOTS, param_write_layout
from cnna.hw.lanes.table_credit import TableCredit
from cnna.hw.lanes.tables import BANK_BITS, BANKS
from cnna.hw.walk.fetch import fetched_layout
from cnna.hw.weights.ring import RingCursor
from cnna.spec.config import Config
from cnna.spec.regmap import COUNTED, STALLS

PARAM_WORD = unsigned(1)  # number of a slot's word in the ring
ROOM = 64  # items (half groups of one block) that may be under way behind the requantiser: about its latency plus the array's


def issue_layout() -> data.StructLayout:
    """The members of a command that the head needs."""
    return data.StructLayout(
        {
            **dict.fromkeys(("stream", "table_use", "table_load"), unsigned(1)),
            **dict.fromkeys(("mid_zero", "mid_clamp_low", "mid_clamp_high"), signed(8)),
        }
    )


def group_layout() -> data.StructLayout:
    """What the drain must know of a pixel group: its parameters, whether its upper half has pixels, and what it ends."""
    return data.StructLayout(
        {
            "slot": range(SLOTS),
            "upper": unsigned(1),
            "chunk_last": unsigned(1),
            "command_last": unsigned(1),
            "bank": unsigned(BANK_BITS),
            "zero": signed(8),
            "low": signed(8),
            "high": signed(8),
        }
    )


class Issue(wiring.Component):
    """Takes a command's table, if it loads one. For each chunk it takes parameters, then steps.

    `feed` and `words` go to the array and `param` to the drain, in the clock in which the ring's data arrives; `table_load` goes
    there a clock earlier. `group` is pushed
    when the last step of a group is taken. `slot_free` returns a slot of the drain; `room_free` returns room for an item.
    `chunk_end` pulses with the last step of a chunk. `active` is set while the array works; otherwise `stall` says why not, as an
    index into STALLS.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        words = data.ArrayLayout(unsigned(8 * config.depth * config.ci), config.pix)
        super().__init__(
            {
                "command": In(stream.Signature(issue_layout())),
                "source": In(stream.Signature(fetched_layout(config, config.pix, blocks=config.depth))),
                "ring": Out(RingRead(8 * config.ring_word_bytes)),
                "feed": Out(data.StructLayout({"valid": 1, "first": 1, "last": 1})),
                "words": Out(words),
                "param_valid": Out(1),
                "param": Out(param_write_layout(PARAM_WORD)),
                "group_push": Out(1),
                "group": Out(group_layout()),
                "table_load": Out(1),
                "table_newest": Out(range(BANKS)),
                "table_written": In(1),
                "table_passed": In(BANKS),
                "slot_free": In(1),
                "room_free": In(1),
                "blocked": In(len(COUNTED)),
                "residual_late": In(1),
                "chunk_end": Out(1),
                "active": Out(1),
                "stall": Out(range(len(STALLS))),
                "started": Out(32),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.cursor = cursor = RingCursor(8 * self.config.ring_word_bytes)
        wiring.connect(m, wiring.flipped(self.ring), cursor.ring)
        source, command = self.source, Signal(issue_layout())
        running = Signal()
        loading = Signal()
        untouched = Signal(name="untouched")  # which the testbench reads
        load = Signal()
        step = Signal()
        end = Signal()
        m.submodules.tables = tables = TableCredit(self.config.table_words, ROOM)
        slot, may_load = self._slots(m, tables)
        m.submodules.group_credit = credit = GroupCredit(2 * self.config.chunk_blocks, ROOM)
        m.d.comb += [credit.end.eq(end), credit.short.eq(~self.group.upper), credit.room_free.eq(self.room_free)]
        m.d.comb += [
            tables.start.eq(self.command.valid & ~running & self.command.p.table_load),
            *(tables.take.eq(load), tables.uses.eq(command.table_use), tables.end.eq(end), credit.hold.eq(tables.hold)),
            *(tables.written.eq(self.table_written), tables.passed.eq(self.table_passed)),
            *(self.table_load.eq(tables.load), self.table_newest.eq(tables.newest), self.group.bank.eq(tables.bank)),
        ]
        m.d.comb += [
            load.eq(running & loading & cursor.there & may_load),
            step.eq(running & ~loading & cursor.there & source.valid & (~source.p.last | credit.ok)),
            end.eq(step & source.p.last),
            source.ready.eq(step),
            self.chunk_end.eq(end & source.p.group_last),
            cursor.take.eq(load | step),
            cursor.free.eq(loading | command.stream | source.p.group_last),
            cursor.rewind.eq(source.p.last),
        ]
        word_last = self._load(m, load & ~tables.fetching, slot)
        with m.If(load & word_last & ~tables.fetching):
            m.d.sync += loading.eq(0)
        with m.If(self.chunk_end):
            m.d.sync += [loading.eq(1), running.eq(~source.p.unit_last)]
        m.d.comb += self.command.ready.eq(~running)
        with m.If(self.command.valid & ~running):
            m.d.sync += [command.eq(self.command.p), running.eq(1), loading.eq(1), untouched.eq(1)]
        with m.If(step):
            m.d.sync += [untouched.eq(0), self.started.eq(self.started + untouched)]

        m.d.comb += [
            self.feed.eq(delayed(m, Cat(step, source.p.first, source.p.last), RING_LATENCY, cleared=True)),
            self.words.eq(delayed(m, source.p.words, RING_LATENCY)),
            self.group_push.eq(end),
            self.group.slot.eq(slot),
            self.group.upper.eq(source.p.exists[self.config.half]),
            self.group.chunk_last.eq(source.p.group_last),
            self.group.command_last.eq(source.p.group_last & source.p.unit_last),
            self.group.zero.eq(command.mid_zero),
            self.group.low.eq(command.mid_clamp_low),
            self.group.high.eq(command.mid_clamp_high),
        ]
        self._count(m, step, running, loading, cursor.there, may_load)
        return m

    def _slots(self, m: Module, tables: TableCredit) -> tuple[Signal, Signal]:
        """The slot of the current chunk, and whether a word for it may be taken, or first a word of a table."""
        slot = Signal(range(SLOTS))
        used = Signal(range(SLOTS + 1))
        may_load = Signal()
        after = Signal(range(SLOTS + 1))
        m.d.comb += after.eq(used + self.chunk_end - self.slot_free)
        m.d.sync += [used.eq(after), slot.eq(slot + self.chunk_end)]
        m.d.sync += may_load.eq(Mux(tables.fetches, tables.may_fetch, after != SLOTS))
        return slot, may_load

    def _load(self, m: Module, load: Signal, slot: Signal) -> Value:
        """Tells the drain which parameter word comes out of the ring. Returns whether the current word is the last of its chunk."""
        word = Signal(1)
        m.d.comb += [
            self.param_valid.eq(delayed(m, load, RING_LATENCY, cleared=True)),
            self.param.eq(delayed(m, Cat(slot, word), RING_LATENCY)),
        ]
        if self.config.param_words == 1:
            return Const(1)
        m.d.sync += word.eq(word ^ load)
        return word

    def _count(self, m: Module, step: Signal, running: Signal, loading: Signal, there: Signal, may_load: Signal) -> None:
        """Drives `active` and `stall`, both a clock late."""
        cause = {name: index for index, name in enumerate(STALLS)}
        waits = {name: self.blocked[COUNTED.index(name)] for name in COUNTED}
        m.d.sync += self.active.eq(step)
        with m.If(~running):
            m.d.sync += self.stall.eq(cause["idle"])
        with m.Elif(loading & there & ~may_load):
            m.d.sync += self.stall.eq(cause["write_back"])
        with m.Elif(loading):
            m.d.sync += self.stall.eq(cause["weights"])
        with m.Elif(~self.source.valid):
            kind = Mux(waits["store"], cause["store"], Mux(waits["conv"] | waits["vector"], cause["token"], cause["feature"]))
            m.d.sync += self.stall.eq(kind)
        with m.Elif(~there):
            m.d.sync += self.stall.eq(cause["weights"])
        with m.Else():
            m.d.sync += self.stall.eq(Mux(self.residual_late, cause["residual"], cause["write_back"]))
