"""Behind the array: takes a pixel group's sums to the requantiser, half a group of one channel block a clock.

The array holds a group's sums until the next group ends, and `issue` lets groups end no faster than they drain.
"""

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from cnna.hw.config import Config
from cnna.hw.fifo import CreditFifo
from cnna.hw.issue import ROOM, SLOTS, group_layout, param_write_layout
from cnna.hw.ports import params_layout, sums_layout
from cnna.hw.requant import Lanes, Modes

GROUPS = 16  # that may have left `issue` and not yet drained
PARAM_BITS = 64  # of a channel


def half_layout(config: Config) -> data.StructLayout:
    """The words of half a group, one channel block; `last` of a command."""
    return data.StructLayout({"words": data.ArrayLayout(8 * config.ci, config.half), "last": 1})


class Drain(wiring.Component):
    """Sums to int8 by each channel's parameters; half groups outside, blocks inside.

    `param` says which part of a slot `ring_data` is. Groups are pushed in order, well before their sums come. `slot_free` pulses
    when a chunk's last group has drained. An item at `o` was paid for in `issue`, which gets `room_free` when it is taken.
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
                "param": In(param_write_layout()),
                "ring_data": In(8 * config.ring_word_bytes),
                "slot_free": Out(1),
                "room_free": Out(1),
                "o": Out(stream.Signature(half_layout(config))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        m.submodules.groups = groups = CreditFifo(group_layout(), GROUPS)
        m.submodules.lanes = lanes = Lanes(config.half * config.ci, Modes.REQUANTISE, tag_bits=1)
        m.submodules.fifo = fifo = CreditFifo(half_layout(config), ROOM)
        group = groups.o.p
        m.d.comb += [groups.push.eq(self.group_push), groups.item.eq(self.group)]

        working, block, upper = Signal(), Signal(range(max(config.chunk_blocks, 2))), Signal()
        draining, block_last, last = Signal(), Signal(), Signal()
        m.d.comb += [
            draining.eq(self.sums_valid | working),
            block_last.eq(block == config.chunk_blocks - 1),
            last.eq(draining & block_last & (upper | ~group.upper)),
            groups.o.ready.eq(last),
            self.slot_free.eq(last & group.chunk_last),
        ]
        m.d.sync += working.eq(draining & ~last)
        with m.If(draining):
            m.d.sync += block.eq(Mux(block_last, 0, block + 1))
            with m.If(block_last):
                m.d.sync += upper.eq(~last)

        m.d.sync += [
            lanes.valid.eq(draining),
            lanes.tag.eq(last & group.command_last),
            lanes.zero.eq(group.zero),
            lanes.low.eq(group.low),
            lanes.high.eq(group.high),
        ]
        self._choose(m, block, upper, group.slot, lanes)
        m.d.comb += [
            fifo.push.eq(lanes.o_valid),
            fifo.item.words.eq(lanes.o),
            fifo.item.last.eq(lanes.o_tag),
            self.room_free.eq(fifo.o.valid & fifo.o.ready),
        ]
        wiring.connect(m, wiring.flipped(self.o), fifo.o)
        return m

    def _choose(self, m: Module, block: Signal, upper: Signal, slot: Value, lanes: Lanes) -> None:
        """The half group's sums and the block's parameters, into the lanes' registers."""
        config = self.config
        params = self._params(m, slot)
        with m.Switch(block):
            for index in range(config.chunk_blocks):
                channels = slice(index * config.ci, (index + 1) * config.ci)
                halves = [
                    Cat(self.sums[pixel].as_value()[32 * channels.start : 32 * channels.stop] for pixel in pixels)
                    for pixels in (range(config.half), range(config.half, config.pix))
                ]
                with m.Case(index):
                    m.d.sync += lanes.acc.eq(Mux(upper, halves[1], halves[0]))
                    m.d.sync += lanes.params.eq(Cat(params[channels] * config.half))

    def _params(self, m: Module, slot: Value) -> list[Value]:
        """Each channel's parameters, from a small memory of its own that is read without a clock."""
        size, answers = self.config.ring_word_bytes, []
        for channel in range(self.config.co):
            word, byte = divmod(8 * channel, size)
            memory = Memory(shape=PARAM_BITS, depth=SLOTS, init=[])
            m.submodules[f"params{channel}"] = memory
            into, out = memory.write_port(), memory.read_port(domain="comb")
            m.d.comb += [
                into.en.eq(self.param_valid & (self.param.word == word)),
                into.addr.eq(self.param.slot),
                into.data.eq(self.ring_data[8 * byte : 8 * byte + PARAM_BITS]),
                out.addr.eq(slot),
            ]
            answers.append(out.data)
        return answers


assert params_layout().size == PARAM_BITS
