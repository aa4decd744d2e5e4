"""A few requantising lanes that share their copies of an item's common bits: `requant.Lanes` is made of these.

A module by itself, so that synthesis looks at one of all that are alike; attributes keep the copies apart.

To requantise, DSP 0 multiplies the sum's low 17 bits and DSP 1 the others, added to DSP 0's result shifted by as many; their
pre-adders add the offset to either part. To combine, they multiply an operand each.
"""

import enum

from amaranth import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.attributes import COPY
from cnna.hw.base.timing import delayed
from cnna.hw.lanes import dsp, rounding

LANES = 4  # in a bundle, at most: below 300 loads a bit
VALUE_AT = 3 + dsp.LATENCY  # clocks from a port to the register of an item's value
OFFSET_AT = dsp.LATENCY - dsp.C_LATENCY  # clocks from a port to that of the offset, where lanes only combine
LOW_BITS = 17  # of a sum, for DSP 0
_SUM_VALUE_BITS = 56  # of int32 times 24 bits
_OPERAND_VALUE_BITS = 35  # of two products of 8 by 26 bits, and an int32


class Modes(enum.Enum):
    """What lanes can do. BOTH: as the item's `combine` bit says."""

    REQUANTISE = enum.auto()
    COMBINE = enum.auto()
    BOTH = enum.auto()


def lane_ports(lanes: int, modes: Modes) -> dict[str, wiring.Member]:
    """What goes into lanes that requantise, combine, or both, one by one, and comes out of them."""
    ports = {"o": Out(data.ArrayLayout(signed(8), lanes))}
    if modes is not Modes.COMBINE:
        return ports | {"acc": In(data.ArrayLayout(signed(32), lanes))}
    return ports | dict.fromkeys("ab", In(data.ArrayLayout(signed(8), lanes)))


class Bundle(wiring.Component):
    """`count` lanes with the same parameters; ports as `requant.Lanes` has them, but for those that come when they are needed:

    `factor_b` a clock after the item's others, `offset` OFFSET_AT where lanes only combine, `shift` VALUE_AT - 1, `base`
    VALUE_AT + rounding.BASE_AT, `low` and `span` VALUE_AT + rounding.CLAMP_AT (`rounding.to_int8` says what they are).
    """

    def __init__(self, count: int, modes: Modes) -> None:
        self.count = count
        self.sums, self.operands = modes is not Modes.COMBINE, modes is not Modes.REQUANTISE
        ports = {"factor": In(signed(26)), "offset": In(signed(32)), "shift": In(rounding.SHIFT_BITS)}
        ports |= {"base": In(signed(9)), "span": In(8), "low": In(signed(8))}
        if self.operands:
            ports["factor_b"] = In(signed(26))
        if self.sums and self.operands:
            ports["combine"] = In(1)
        super().__init__({**ports, **lane_ports(count, modes)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        combine = self._combine(m)
        factor = delayed(m, self.factor, 1, attrs=COPY)
        second = delayed(m, self._choice(combine[1], self.factor_b if self.operands else None, factor), 1, attrs=COPY)
        common = {"factor": factor, "second": second, "carried": delayed(m, second, 2, attrs=COPY) if self.sums else None}
        offset = _line(m, self.offset, 2 * self.sums + self.operands)
        shift = rounding.amounts(m, self.shift)
        answers = []
        for lane in range(self.count):
            value = self._value(m, lane, common, offset, combine)
            answers.append(rounding.to_int8(m, value, shift, self.base, self.span, self.low))
        m.d.comb += self.o.as_value().eq(Cat(answers))
        return m

    def _choice(self, combine: Value, combined: Value | None, requantised: Value | None) -> Value:
        if not (self.sums and self.operands):
            return combined if self.operands else requantised
        return Mux(combine, combined, requantised)

    def _combine(self, m: Module) -> list[Value]:
        """The `combine` bit: [clocks after the port's]."""
        if not (self.sums and self.operands):
            return [Const(self.operands, 1)] * (VALUE_AT - 1)
        return _line(m, self.combine, VALUE_AT - 2)

    def _value(self, m: Module, lane: int, common: dict[str, Value | None], offset: list[Value], combine: list[Value]) -> Signal:
        """What is to be shifted and rounded: the sum's or the operands' product."""
        first = 1 + dsp.LATENCY - dsp.C_LATENCY  # clocks after the port's in which DSP 0 looks at OPMODE
        added_0 = self._choice(combine[first], dsp.opmode(dsp.ADD_C), dsp.opmode())
        added_1 = self._choice(combine[first + 1], dsp.opmode(dsp.ADD_PCIN), dsp.opmode(dsp.ADD_PCIN_SHIFTED, dsp.ALSO_C))
        if self.sums:
            acc = delayed(m, self.acc[lane].as_unsigned(), 1)
            low, high = Cat(acc[:LOW_BITS], acc[LOW_BITS - 1] & combine[1]), dsp.sign_extended(acc[LOW_BITS:], dsp.B_BITS)
            # less 2^17, so that the sum stays within 18 bits; a factor at DSP 1's C gives them back
            own_0 = {"d": Cat(offset[1][:LOW_BITS], Const(-1, dsp.D_BITS - LOW_BITS)), "adds": ~combine[1]}
            own_1 = {"d": dsp.sign_extended(offset[2][LOW_BITS:], dsp.D_BITS), "adds": ~combine[2]}
            own_0 |= {"d_to": "B"}
            own_1 |= {"d_to": "B", "c": dsp.sign_extended(common["carried"], dsp.C_BITS)}
        else:
            low, high = (dsp.sign_extended(delayed(m, operand[lane], 1), dsp.B_BITS) for operand in (self.a, self.b))
            own_0, own_1 = {}, {}
        if self.operands:
            own_0["c"] = dsp.sign_extended(offset[-1], dsp.C_BITS)
        p0, pcin, p1 = (Signal(dsp.P_BITS, name=f"dsp_{name}") for name in ("p0", "pcin", "p1"))
        m.submodules[f"dsp0_{lane}"] = dsp.dsp48e2(
            a=dsp.sign_extended(common["factor"], dsp.A_BITS), b=low, p=p0, pcout=pcin, opmode=added_0, **own_0
        )
        m.submodules[f"dsp1_{lane}"] = dsp.dsp48e2(
            a=dsp.sign_extended(common["second"], dsp.A_BITS), b=delayed(m, high, 1), pcin=pcin, p=p1, opmode=added_1, **own_1
        )
        if not self.sums:
            return delayed(m, p1[:_OPERAND_VALUE_BITS].as_signed(), 1)
        lowest = Signal(LOW_BITS, reset_less=True)
        m.d.sync += lowest.eq(p0[:LOW_BITS])
        if self.operands:
            with m.If(combine[VALUE_AT - 2]):
                m.d.sync += lowest.eq(0)
        return delayed(m, Cat(lowest, p1)[:_SUM_VALUE_BITS].as_signed(), 1)


def _line(m: Module, value: Value, clocks: int) -> list[Value]:
    """`value` 0 to `clocks` clocks later; all lanes share it."""
    late = [value]
    for _ in range(clocks):
        late.append(delayed(m, late[-1], 1, attrs=COPY))
    return late
