"""The residual add behind the requantiser: adds an optional second operand to the half groups that come from the drain.

It stands between `drain` and `scatter`. A convolution without a residual passes through it too, with constants that change nothing.
"""

from amaranth import Cat, Module, Mux, Shape, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.array.drain import half_layout
from cnna.hw.base.queues import CreditFifo
from cnna.hw.lanes.requant import Lanes, Modes
from cnna.hw.walk.fetch import fetched_layout
from cnna.spec.config import Config
from cnna.spec.regmap import command_fields

ROOM = 32  # items that may be under way: more than the latency of the lanes
NAMES = ("res_enable", "add_a", "add_b", "add_offset", "add_shift", "out_zero", "out_clamp_low", "out_clamp_high")


def add_layout() -> data.StructLayout:
    """The members of a command that the add needs."""
    fields = command_fields("conv")
    return data.StructLayout({name: Shape(fields[name].bits, fields[name].signed) for name in NAMES})


class ResidualAdd(wiring.Component):
    """Applies `combine` to the words of `mid` and of the residual, which come in the same order, `half` words a clock.

    A command applies to all items up to the one marked `last`. `late` is set while an item waits for its residual.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "command": In(stream.Signature(add_layout())),
                "mid": In(stream.Signature(half_layout(config))),
                "residual": In(stream.Signature(fetched_layout(config, config.half))),
                "o": Out(stream.Signature(data.ArrayLayout(8 * config.ci, config.half))),
                "late": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config, command = self.config, Signal(add_layout())
        count = config.half * config.ci
        m.submodules.lanes = lanes = Lanes(count, Modes.COMBINE)
        m.submodules.fifo = fifo = CreditFifo(data.ArrayLayout(8 * config.ci, config.half), ROOM)
        running = Signal()
        room = Signal()
        take = Signal()
        free = Signal(range(ROOM + 1), init=ROOM)
        m.d.sync += [free.eq(free - take + (fifo.o.valid & fifo.o.ready)), room.eq(free >= 2)]  # 2, because `room` is a clock late
        m.d.comb += [
            self.command.ready.eq(~running),
            take.eq(running & room & self.mid.valid & (self.residual.valid | ~command.res_enable)),
            self.mid.ready.eq(take),
            self.residual.ready.eq(take & command.res_enable),
            self.late.eq(running & self.mid.valid & command.res_enable & ~self.residual.valid),
        ]
        with m.If(~running):
            m.d.sync += [command.eq(self.command.p), running.eq(self.command.valid)]
        with m.If(take & self.mid.p.last):
            m.d.sync += running.eq(0)

        m.d.sync += [
            lanes.valid.eq(take),
            lanes.a.eq(self.mid.p.words),
            lanes.b.eq(Cat(self.residual.p.words)),
            lanes.params[0].factor.eq(command.add_a),
            lanes.params[0].offset.eq(command.add_offset),
            lanes.params[0].shift.eq(command.add_shift),
            lanes.factor_b.eq(Mux(command.res_enable, command.add_b, 0)),  # 0 makes b count for nothing
            lanes.zero.eq(command.out_zero),
            lanes.low.eq(command.out_clamp_low),
            lanes.high.eq(command.out_clamp_high),
        ]
        m.d.comb += [fifo.push.eq(lanes.o_valid), fifo.item.eq(lanes.o)]
        wiring.connect(m, wiring.flipped(self.o), fifo.o)
        return m
