"""Behind the array: brings the sums of a pixel group to the requantiser, half a group of one channel block a clock.

The array holds a group's sums until the next group ends. `issue` lets groups end no faster than they drain.
"""

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.array.issue import PARAM_WORD, ROOM, group_layout
from cnna.hw.base.ports import sums_layout
from cnna.hw.base.queues import CreditFifo
from cnna.hw.base.slices import SlicedSelector
from cnna.hw.base.timing import delayed
from cnna.hw.lanes import tables
from cnna.hw.lanes.look_up import LookUp
from cnna.hw.lanes.parameter_slots import GROUPS, SlotPart, SlotPorts, param_write_layout, parameter_slots
from cnna.hw.lanes.requant import Lanes, Modes
from cnna.hw.lanes.tables import BANKS
from cnna.spec.config import PARAM_BYTES, Config

SLOT_CHANNELS = 8  # whose memories share a queue of slot numbers: 35 loads each


def half_layout(config: Config) -> data.StructLayout:
    """The words of half a group, one channel block; `last` marks the last item of a command."""
    return data.StructLayout({"words": data.ArrayLayout(8 * config.ci, config.half), "last": 1})


class Drain(wiring.Component):
    """Turns sums into int8 by each channel's parameters, and looks them up in the table of the group's command.

    The order of the items is halves first, then blocks within a half. `param` says which word of which slot `ring_data` is;
    `table_load` is set a clock before a word of a table. Groups are pushed in order, well before their sums come. `slot_free`
    pulses when a chunk's last group has drained. `issue` has booked room for every item at `o`, and gets it back by `room_free`
    when the item is taken.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "sums_valid": In(1),
                "sums": In(sums_layout(config)),
                "group_push": In(1),
                "group": In(group_layout()),
                "param_valid": In(1),
                "param": In(param_write_layout(PARAM_WORD)),
                "table_load": In(1),
                "table_newest": In(range(BANKS)),
                "ring_data": In(8 * config.ring_word_bytes),
                "table_written": Out(1),
                "table_passed": Out(BANKS),
                "slot_free": Out(1),
                "room_free": Out(1),
                "o": Out(stream.Signature(half_layout(config))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        m.submodules.groups = groups = CreditFifo(group_layout(), GROUPS)
        m.submodules.lanes = lanes = Lanes(config.half * config.ci, Modes.REQUANTISE, tag_bits=1, sets=config.ci)
        m.submodules.look_up = look_up = LookUp(lanes.lanes, config.ring_word_bytes)
        m.submodules.fifo = fifo = CreditFifo(half_layout(config), ROOM)
        group = groups.o.p
        m.d.comb += [groups.push.eq(self.group_push), groups.item.eq(self.group)]

        working = Signal()
        block = Signal(range(max(config.chunk_blocks, 2)))
        upper = Signal()
        draining = Signal()
        block_last = Signal()
        last = Signal()
        next_block = Signal.like(block)
        next_upper = Signal()
        m.d.comb += [
            draining.eq(self.sums_valid | working),
            block_last.eq(block == config.chunk_blocks - 1),
            last.eq(draining & block_last & (upper | ~group.upper)),
            next_block.eq(Mux(draining, Mux(block_last, 0, block + 1), block)),
            next_upper.eq(Mux(draining & block_last, ~last, upper)),
            groups.o.ready.eq(last),
            self.slot_free.eq(last & group.chunk_last),
        ]
        m.d.sync += [working.eq(draining & ~last), block.eq(next_block), upper.eq(next_upper)]

        m.d.sync += [
            *(lanes.valid.eq(draining), look_up.bank.eq(group.bank), look_up.last.eq(last)),
            lanes.tag.eq(last & group.command_last),
            lanes.zero.eq(group.zero),
            lanes.low.eq(group.low),
            lanes.high.eq(group.high),
        ]
        self._choose(m, next_block, next_upper, last, lanes)
        m.d.comb += [
            *(look_up.valid.eq(lanes.valid), look_up.results.eq(lanes.o), look_up.results_valid.eq(lanes.o_valid)),
            *(
                look_up.load.eq(self.table_load),
                look_up.word.eq(self.ring_data[: len(look_up.word)]),
                look_up.newest.eq(self.table_newest),
            ),
            *(self.table_written.eq(look_up.written), self.table_passed.eq(look_up.passed)),
            fifo.push.eq(look_up.o_valid),
            fifo.item.words.eq(look_up.o),
            fifo.item.last.eq(delayed(m, lanes.o_tag, tables.LATENCY)),
            self.room_free.eq(fifo.o.valid & fifo.o.ready),
        ]
        wiring.connect(m, wiring.flipped(self.o), fifo.o)
        return m

    def _choose(self, m: Module, block: Signal, upper: Signal, last: Signal, lanes: Lanes) -> None:
        """Chooses the half group's sums and the block's parameters for the lanes; `block` and `upper` are the next clock's."""
        config, blocks = self.config, self.config.chunk_blocks
        params = self._params(m, last)
        m.submodules.sums_selector = sums = SlicedSelector(len(lanes.acc.as_value()), 2 * blocks)
        m.submodules.params_selector = chosen = SlicedSelector(8 * PARAM_BYTES * config.ci, blocks)
        m.d.comb += [
            sums.upcoming.eq(Mux(upper, block + blocks, block)),
            chosen.upcoming.eq(block),
            lanes.acc.eq(sums.o),
            lanes.params.eq(chosen.o),
        ]
        for index in range(blocks):
            channels = slice(index * config.ci, (index + 1) * config.ci)
            m.d.comb += chosen.options[index].eq(Cat(params[channels]))
            for half in range(2):
                pixels = range(half * config.half, (half + 1) * config.half)
                option = Cat(self.sums[pixel].as_value()[32 * channels.start : 32 * channels.stop] for pixel in pixels)
                m.d.comb += sums.options[half * blocks + index].eq(option)

    def _params(self, m: Module, last: Signal) -> list[Value]:
        """Each channel's parameters, those of the oldest group's slot."""
        size = self.config.ring_word_bytes
        places = [divmod(PARAM_BYTES * channel, size) for channel in range(self.config.co)]  # (word, first byte in it)
        parts = [SlotPart(word, self.ring_data[8 * byte : 8 * (byte + PARAM_BYTES)]) for word, byte in places]
        ports = SlotPorts(self.param_valid, self.param, self.group_push, self.group.slot, last)
        return parameter_slots(m, ports, parts, SLOT_CHANNELS)
