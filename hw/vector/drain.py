"""Behind the vector engine's accumulators: turns a group's sums or operands into int8, half a group a clock."""

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.queues import CreditFifo
from cnna.hw.base.slices import SlicedSelector, slices
from cnna.hw.lanes.look_up import LookUp
from cnna.hw.lanes.parameter_slots import GROUPS, SlotPart, SlotPorts, param_write_layout, parameter_slots
from cnna.hw.lanes.requant import Lanes, Modes, placed
from cnna.hw.lanes.tables import BANKS
from cnna.hw.vector.issue import ROOM, param_word, vector_group_layout
from cnna.hw.vector.sums import vector_sums_layout
from cnna.spec.config import Config

PART_BITS = 128  # of a ring word that one memory keeps: two channels
SLOT_PARTS = 4  # whose memories share a queue of slot numbers: 70 loads each


class VectorDrain(wiring.Component):
    """Requantises sums, or combines operands, by each channel's parameters, and looks the results up in the command's table.

    `param` says which word of which slot `ring_data` is; `table_load` is set a clock before a word of a table. Groups are pushed
    in order, well before their sums come. `slot_free` pulses when a slot's last group has drained. `VectorIssue` has booked room
    for every item at `o`, and gets it back by `room_free` when the item is taken.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "sums_valid": In(1),
                "sums": In(vector_sums_layout(config)),
                "group_push": In(1),
                "group": In(vector_group_layout()),
                "param_valid": In(1),
                "param": In(param_write_layout(param_word(config))),
                "table_load": In(1),
                "table_newest": In(range(BANKS)),
                "ring_data": In(8 * config.vector_word_bytes),
                "table_written": Out(1),
                "table_passed": Out(BANKS),
                "slot_free": Out(1),
                "room_free": Out(1),
                "o": Out(stream.Signature(data.ArrayLayout(8 * config.ci, config.half))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        half = config.half
        m.submodules.groups = groups = CreditFifo(vector_group_layout(), GROUPS)
        m.submodules.lanes = lanes = Lanes(half * config.ci, Modes.BOTH, sets=config.ci)
        m.submodules.look_up = look_up = LookUp(lanes.lanes, config.vector_word_bytes)
        m.submodules.fifo = fifo = CreditFifo(data.ArrayLayout(8 * config.ci, half), ROOM)
        group = groups.o.p
        working = Signal()  # on the upper half
        last = Signal()
        m.d.comb += [
            groups.push.eq(self.group_push),
            groups.item.eq(self.group),
            last.eq(working | (self.sums_valid & ~group.upper)),
            groups.o.ready.eq(last),
            self.slot_free.eq(last & group.slot_last),
        ]
        m.submodules.selector = selector = SlicedSelector(32 * half * config.ci, 4)
        m.d.comb += [
            selector.upcoming.eq(Cat(self.sums_valid & group.upper, self._combines(m, last))),
            lanes.acc.eq(selector.o),
        ]
        m.d.sync += working.eq(self.sums_valid & group.upper)
        for number in range(2):
            sums = [value for pixel in range(number * half, (number + 1) * half) for value in self.sums[pixel]]
            m.d.comb += [
                selector.options[number].eq(Cat(sums)),
                selector.options[2 + number].eq(Cat(placed(value[:8], value[8:16]) for value in sums)),
            ]
        m.d.sync += [
            lanes.valid.eq(self.sums_valid | working),
            *(look_up.bank.eq(group.bank), look_up.last.eq(last)),
            lanes.combine.eq(group.combine),
            lanes.params.eq(self._params(m, last)),
            lanes.factor_b.eq(group.factor_b),
            lanes.zero.eq(group.zero),
            lanes.low.eq(group.low),
            lanes.high.eq(group.high),
        ]
        m.d.comb += [
            *(look_up.valid.eq(lanes.valid), look_up.results.eq(lanes.o), look_up.results_valid.eq(lanes.o_valid)),
            *(look_up.load.eq(self.table_load), look_up.word.eq(self.ring_data), look_up.newest.eq(self.table_newest)),
            *(self.table_written.eq(look_up.written), self.table_passed.eq(look_up.passed)),
            *(fifo.push.eq(look_up.o_valid), fifo.item.eq(look_up.o), self.room_free.eq(fifo.o.valid & fifo.o.ready)),
        ]
        wiring.connect(m, wiring.flipped(self.o), fifo.o)
        return m

    def _combines(self, m: Module, last: Signal) -> Value:
        """Whether the group that heads the queue a clock later combines. This bit runs a clock ahead of the others."""
        m.submodules.combines = ahead = CreditFifo(1, GROUPS)
        first = Signal()
        valid = Signal()
        with m.If(ahead.o.ready):
            m.d.sync += [first.eq(ahead.o.p), valid.eq(ahead.o.valid)]
        m.d.comb += [ahead.push.eq(self.group_push), ahead.item.eq(self.group.combine), ahead.o.ready.eq(last | ~valid)]
        return Mux(ahead.o.ready, ahead.o.p, first)

    def _params(self, m: Module, last: Signal) -> Value:
        """The parameters of the oldest group's block."""
        pieces = [self.ring_data[part] for part in slices(len(self.ring_data), PART_BITS)]
        parts = [SlotPart(word, piece) for word in param_word(self.config) for piece in pieces]
        ports = SlotPorts(self.param_valid, self.param, self.group_push, self.group.slot, last)
        return Cat(parameter_slots(m, ports, parts, SLOT_PARTS))
