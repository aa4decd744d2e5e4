"""The head of the vector engine: pairs each channel block's words from feature memory with its parameters and weights.

Nothing behind it can be stopped: `group_credit` says when a group may end, and `table_credit` when its table has been written.

For depthwise convolution a block's weights stay in the ring until its last group has used them. The next block's parameters lie
behind them and are loaded then; other operations load their parameters ahead.
"""

from amaranth import Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.attributes import KEEP, PAIR
from cnna.hw.base.ports import RING_LATENCY, RingRead
from cnna.hw.base.timing import delayed
from cnna.hw.lanes.group_credit import GroupCredit
from cnna.hw.lanes.parameter_slots import SLOTS, param_write_layout
from cnna.hw.lanes.table_credit import TableCredit
from cnna.hw.lanes.tables import BANK_BITS, BANKS
from cnna.hw.vector.products import zeros_layout, zeros_of
from cnna.hw.walk.fetch import fetched_layout
from cnna.hw.walk.walk import words_of
from cnna.hw.weights.ring import RingCursor
from cnna.spec.config import TAPS, Config
from cnna.spec.regmap import VECTOR_OPS

ROOM = 64  # items that may be under way behind the accumulators: about twice the clocks that an item takes
DEPTHWISE, AVERAGE, MAX, ELEMENTWISE, MINIMUM, PRODUCT = range(len(VECTOR_OPS))


def vector_issue_layout() -> data.StructLayout:
    """The members of a command that the head needs, under the command's names."""
    return data.StructLayout(
        {
            "op": unsigned(3),
            "blocks": unsigned(16),
            **dict.fromkeys(("uniform", "table_use", "table_load"), unsigned(1)),
            "add_b": signed(26),
            **dict.fromkeys(("pad", "b_zero"), signed(8)),
            "out_zero": signed(8),
            "out_clamp_low": signed(8),
            "out_clamp_high": signed(8),
        }
    )


def vector_group_layout() -> data.StructLayout:
    """What the drain must know of a group: its parameters, whether it uses them last, and whether its upper half has pixels."""
    return data.StructLayout(
        {
            "slot": range(SLOTS),
            "slot_last": unsigned(1),
            "upper": unsigned(1),
            "combine": unsigned(1),
            "bank": unsigned(BANK_BITS),
            "factor_b": signed(26),
            "zero": signed(8),
            "low": signed(8),
            "high": signed(8),
        }
    )


def param_word(config: Config) -> range:
    """Numbers of a slot's words in the ring."""
    return range(config.vector_param_words)


def vector_feed_layout(config: Config) -> data.StructLayout:
    """A step on its way to the accumulators.

    inside: by pixel, which of its taps count. The others are `pads`: the padding, or for taps that are not there, what changes
    nothing.
    """
    inside, pads = data.ArrayLayout(unsigned(TAPS), config.pix), data.ArrayLayout(signed(8), TAPS)
    return data.StructLayout({"valid": 1, "first": 1, "last": 1, "op": 3, "zeros": zeros_layout(), "inside": inside, "pads": pads})


class VectorIssue(wiring.Component):
    """Takes a command's table, if it loads one, then loads parameters and takes steps.

    `words` go to the accumulators and `param` to the drain, in the clock in which the ring's data arrives; `feed` and `table_load`
    go there a clock earlier. `group` is pushed when the last step of a group is taken. `slot_free` returns a slot of the drain;
    `room_free` returns room for an item.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "command": In(stream.Signature(vector_issue_layout())),
                "source": In(stream.Signature(fetched_layout(config, config.pix, window=True))),
                "ring": Out(RingRead(8 * config.vector_word_bytes)),
                "feed": Out(vector_feed_layout(config)),
                "words": Out(data.ArrayLayout(8 * config.ci, words_of(config.pix, True))),
                "param_valid": Out(1),
                "param": Out(param_write_layout(param_word(config))),
                "group_push": Out(1),
                "group": Out(vector_group_layout()),
                "table_load": Out(1),
                "table_newest": Out(range(BANKS)),
                "table_written": In(1),
                "table_passed": In(BANKS),
                "slot_free": In(1),
                "room_free": In(1),
                "active": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.cursor = cursor = RingCursor(8 * self.config.vector_word_bytes)
        m.submodules.group_credit = credit = GroupCredit(2, ROOM)
        m.submodules.tables = tables = TableCredit(self.config.vector_table_words, ROOM)
        wiring.connect(m, wiring.flipped(self.ring), cursor.ring)
        source = self.source
        command = Signal(vector_issue_layout())
        running = Signal()
        depthwise = Signal()
        load = Signal()  # a word of parameters or of a table is taken
        step = Signal()
        end = Signal()  # of a group
        block_end = Signal()
        slot, ready = self._sets(m, command, running, load, cursor, depthwise, block_end, tables)
        m.d.comb += [
            tables.start.eq(self.command.valid & ~running & self.command.p.table_load),
            *(tables.take.eq(load), tables.uses.eq(command.table_use), tables.end.eq(end), credit.hold.eq(tables.hold)),
            *(tables.written.eq(self.table_written), tables.passed.eq(self.table_passed)),
            *(self.table_load.eq(tables.load), self.table_newest.eq(tables.newest), self.group.bank.eq(tables.bank)),
            step.eq(running & ready & source.valid & (cursor.there | ~depthwise) & (~source.p.last | credit.ok)),
            end.eq(step & source.p.last),
            block_end.eq(end & source.p.group_last),
            source.ready.eq(step),
            cursor.take.eq(load | (step & depthwise)),
            cursor.free.eq(~ready | ~depthwise | source.p.group_last),
            cursor.rewind.eq(source.p.last),
            credit.end.eq(end),
            credit.short.eq(~self.group.upper),
            credit.room_free.eq(self.room_free),
            self.command.ready.eq(~running),
        ]
        with m.If(~running):
            m.d.sync += [command.eq(self.command.p), depthwise.eq(self.command.p.op == DEPTHWISE), running.eq(self.command.valid)]
        with m.If(block_end & source.p.unit_last):
            m.d.sync += running.eq(0)

        m.d.sync += self.active.eq(step)
        early = RING_LATENCY - 1
        zeros = self._zeros(m, command, early)
        m.d.comb += [
            Cat(self.feed.valid, self.feed.first, self.feed.last, self.feed.op).eq(
                delayed(m, Cat(step, source.p.first, source.p.last, command.op), early, cleared=True)
            ),
            *(self.feed.zeros.eq(zeros), self.feed.pads.eq(self._pads(m, command, early))),
            *(
                self.feed.inside[pixel].eq(delayed(m, Cat(source.p.inside[pixel], source.p.more[pixel]), early, attrs=PAIR))
                for pixel in range(self.config.pix)
            ),
            self.words.eq(delayed(m, source.p.words, RING_LATENCY)),
            self.group_push.eq(end),
            self.group.slot.eq(slot),
            self.group.slot_last.eq(source.p.group_last & (source.p.unit_last | ~command.uniform)),
            self.group.upper.eq(source.p.exists[self.config.half]),
            self.group.combine.eq((command.op == MAX) | (command.op == MINIMUM) | (command.op == ELEMENTWISE)),
            self.group.factor_b.eq(command.add_b),
            self.group.zero.eq(command.out_zero),
            self.group.low.eq(command.out_clamp_low),
            self.group.high.eq(command.out_clamp_high),
        ]
        return m

    def _zeros(self, m: Module, command: data.View, clocks: int) -> data.View:
        """The zero points for the multipliers, `clocks` late: those of a product's operands, and none for other operations."""
        word = Signal(signed(8))
        factor = Signal(signed(8))
        zeros = Signal(zeros_layout(), reset_less=True)
        product = command.op == PRODUCT
        m.d.sync += [
            word.eq(Mux(product, command.pad, 0)),
            factor.eq(Mux(product, command.b_zero, 0)),
            *zeros_of(zeros, word, factor),
        ]
        return delayed(m, zeros, clocks - 2)

    def _pads(self, m: Module, command: data.View, clocks: int) -> Value:
        """What taps read that are outside of the source, or that are not there, `clocks` late."""
        source = self.source.p
        nothing = Signal(signed(8))
        pads = Signal(data.ArrayLayout(signed(8), TAPS), reset_less=True)
        m.d.comb += nothing.eq(0)
        with m.Switch(command.op):
            with m.Case(MAX, ELEMENTWISE):
                m.d.comb += nothing.eq(-128)
            with m.Case(MINIMUM):
                m.d.comb += nothing.eq(127)
        m.d.sync += pads[0].eq(source.pad)
        for tap in range(1, TAPS):
            m.d.sync += pads[tap].eq(Mux(source.taps[tap - 1], source.pad, nothing))
        return delayed(m, pads.as_value(), clocks - 1)

    def _sets(
        self,
        m: Module,
        command: data.View,
        running: Signal,
        load: Signal,
        cursor: RingCursor,
        depthwise: Signal,
        block_end: Signal,
        tables: TableCredit,
    ) -> tuple[Signal, Signal]:
        """Loads a table and parameter sets. Returns the slot of the current block, and whether it is loaded."""
        last_word = self.config.vector_param_words - 1
        word = Signal(range(last_word + 1))
        filling = Signal(range(SLOTS))
        slot = Signal(range(SLOTS))
        at_last = Signal(init=last_word == 0)  # `word` is the last of a set
        left = Signal(16)  # sets that the command still has to load
        more = Signal()
        room = Signal()
        used = Signal(range(SLOTS + 1))
        loaded = Signal(range(SLOTS + 1))
        ready = Signal()
        param = Signal()
        filled = Signal()
        left_behind = Signal()
        after = Signal(range(SLOTS + 1))
        # `filled` comes late in the clock: whether a slot will be free is worked out for both of its values
        after_filled, else_free = (Signal(name=name, attrs=KEEP) for name in ("after_filled", "else_free"))
        m.d.comb += [
            after_filled.eq(used != Mux(self.slot_free, SLOTS, SLOTS - 1)),
            else_free.eq(used != Mux(self.slot_free, SLOTS + 1, SLOTS)),
            load.eq(running & more & room & cursor.there & ~(depthwise & ready)),
            param.eq(load & ~tables.fetching),
            filled.eq(param & at_last),
            left_behind.eq(block_end & (self.source.p.unit_last | ~command.uniform)),
            after.eq(loaded + filled - left_behind),
        ]
        m.d.sync += [
            used.eq(used + filled - self.slot_free),
            room.eq(Mux(tables.fetches, tables.may_fetch, Mux(filled, after_filled, else_free))),
            loaded.eq(after),
            ready.eq(after != 0),
            slot.eq(slot + left_behind),
            filling.eq(filling + filled),
        ]
        with m.If(param):
            m.d.sync += [word.eq(Mux(at_last, 0, word + 1)), at_last.eq(word == (last_word or 1) - 1)]
        with m.If(~running):
            m.d.sync += [left.eq(Mux(self.command.p.uniform, 1, self.command.p.blocks)), more.eq(1)]
        with m.Elif(filled):
            m.d.sync += [left.eq(left - 1), more.eq(left != 1)]
        m.d.comb += [
            self.param_valid.eq(delayed(m, param, RING_LATENCY, cleared=True)),
            self.param.eq(delayed(m, Cat(filling, word) if last_word else filling, RING_LATENCY)),
        ]
        return slot, ready
