"""A few requantising lanes that share their copies of an item's common bits: `requant.Lanes` is made of these.

A module by itself, so that synthesis looks at one of all that are alike, and does not merge the copies.

To requantise, DSP 0 multiplies the sum's low 17 bits and DSP 1 the others, added to DSP 0's result shifted by as many; to
combine, they multiply an operand each.
"""

import enum

from amaranth import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw import dsp, rounding
from cnna.hw.delay import delayed
from cnna.hw.ports import params_layout

LANES = 4  # in a bundle, at most: below 300 loads a bit
VALUE_AT = 3 + dsp.LATENCY  # clocks from a port to the register of an item's value
_LOW_BITS = 17  # of a sum, for DSP 0
_SUM_VALUE_BITS = 56  # of int32 times 24 bits
_OPERAND_VALUE_BITS = 35  # of two products of 8 by 26 bits, and an int32


class Modes(enum.Enum):
    """What lanes can do. BOTH: as the item's `combine` bit says."""

    REQUANTISE = enum.auto()
    COMBINE = enum.auto()
    BOTH = enum.auto()


def lane_ports(lanes: int, modes: Modes, *, shared: bool) -> dict[str, wiring.Member]:
    """What goes into and comes out of lanes that requantise, combine, or both; all but what goes along with an item."""
    eight = data.ArrayLayout(signed(8), lanes)
    ports = {
        "params": In(params_layout() if shared else data.ArrayLayout(params_layout(), lanes)),
        **dict.fromkeys(("zero", "low", "high"), In(signed(8))),
        "o": Out(eight),
    }
    if modes is not Modes.COMBINE:
        ports |= {"acc": In(data.ArrayLayout(signed(32), lanes))}
    if modes is not Modes.REQUANTISE:
        ports |= {"a": In(eight), "b": In(eight), "factor_b": In(signed(26))}
    if modes is Modes.BOTH:
        ports |= {"combine": In(1)}
    return ports


class Bundle(wiring.Component):
    """`count` lanes; ports as `requant.Lanes` has them, but for those that all bundles look at when they need them:

    `factor_b` a clock after the item's others, `zero` VALUE_AT + rounding.ZERO_AT after them, `low` and `high` VALUE_AT +
    rounding.CLAMP_AT.
    """

    def __init__(self, count: int, modes: Modes, *, shared: bool) -> None:
        self.count, self.shared = count, shared
        self.sums, self.operands = modes is not Modes.COMBINE, modes is not Modes.REQUANTISE
        super().__init__(lane_ports(count, modes, shared=shared))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        combine = self._combine(m)
        shared = self._parameters(m, self.params) if self.shared else None
        answers = []
        for lane in range(self.count):
            params = shared or self._parameters(m, self.params[lane])
            value = self._value(m, lane, params, combine)
            answers.append(rounding.to_int8(m, value, params["shift"][VALUE_AT], self.zero, self.low, self.high))
        m.d.comb += self.o.as_value().eq(Cat(answers))
        return m

    def _combine(self, m: Module) -> list[Value]:
        """The `combine` bit: [clocks after the port's]."""
        if not (self.sums and self.operands):
            return [Const(self.operands, 1)] * VALUE_AT
        return _line(m, self.combine, VALUE_AT - 1)

    def _parameters(self, m: Module, params: data.View) -> dict[str, list[Value]]:
        """Parameters of a lane, or of all where they are shared: [name][clocks after the port's]."""
        offset_at = 1 + dsp.LATENCY - dsp.C_LATENCY if self.operands else 0
        return {
            "factor": _line(m, params.factor, 1),
            "offset": _line(m, params.offset, offset_at),
            "shift": _line(m, params.shift, VALUE_AT),
        }

    def _value(self, m: Module, lane: int, params: dict[str, list[Value]], combine: list[Value]) -> Signal:
        """What is to be shifted and rounded: the sum's or the operands' product."""

        def choice(at: int, combined: Value | None, requantised: Value | None) -> Value:
            if not (self.sums and self.operands):
                return combined if self.operands else requantised
            return Mux(combine[at], combined, requantised)

        c = low = high = a = b = factor_b = None
        if self.sums:
            acc = Signal(signed(32), reset_less=True)
            m.d.sync += acc.eq(self.acc[lane] + params["offset"][0])
            low, high = Cat(acc[:_LOW_BITS], Const(0, 1)), dsp.sign_extended(acc[_LOW_BITS:], dsp.B_BITS)
        if self.operands:
            a, b = (dsp.sign_extended(delayed(m, operand[lane], 1), dsp.B_BITS) for operand in (self.a, self.b))
            c = dsp.sign_extended(params["offset"][-1], dsp.C_BITS)
            factor_b = self.factor_b
        factor = params["factor"][1]
        p0, pcin, p1 = (Signal(dsp.P_BITS, name=f"dsp_{name}") for name in ("p0", "pcin", "p1"))
        first = 1 + dsp.LATENCY - dsp.C_LATENCY  # clocks after the port's in which DSP 0 looks at OPMODE
        m.submodules[f"dsp0_{lane}"] = dsp.dsp48e2(
            a=dsp.sign_extended(factor, dsp.A_BITS), b=choice(1, a, low), c=c, p=p0, pcout=pcin,
            opmode=choice(first, dsp.opmode(dsp.ADD_C), dsp.opmode()),
        )  # fmt: skip
        m.submodules[f"dsp1_{lane}"] = dsp.dsp48e2(
            a=dsp.sign_extended(delayed(m, choice(1, factor_b, factor), 1), dsp.A_BITS),
            b=delayed(m, choice(1, b, high), 1), pcin=pcin, p=p1,
            opmode=choice(first + 1, dsp.opmode(dsp.ADD_PCIN), dsp.opmode(dsp.ADD_PCIN_SHIFTED)),
        )  # fmt: skip
        sum_value = Cat(delayed(m, p0[:_LOW_BITS], 1), p1)[:_SUM_VALUE_BITS].as_signed() if self.sums else None
        value = Signal(signed(_SUM_VALUE_BITS if self.sums else _OPERAND_VALUE_BITS), reset_less=True)
        m.d.sync += value.eq(choice(VALUE_AT - 1, p1[:_OPERAND_VALUE_BITS].as_signed(), sum_value))
        return value


def _line(m: Module, value: Value, clocks: int) -> list[Value]:
    """`value` 0 to `clocks` clocks later."""
    late = [value]
    for _ in range(clocks):
        late.append(delayed(m, late[-1], 1))
    return late
