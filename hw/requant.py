"""Lanes that bring sums to int8: `arith.requantise` and `arith.combine`, with two DSP48E2 each.

Used three times: behind the array (requantise), for the residual add (combine), and in the vector engine (either,
item by item). They run free: one item a clock, `latency` clocks late, nothing holds them still.

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

_LOW_BITS = 17  # of a sum, for DSP 0
_SUM_VALUE_BITS = 56  # of int32 times 24 bits
_OPERAND_VALUE_BITS = 35  # of two products of 8 by 26 bits, and an int32
_VALUE_AT = 3 + dsp.LATENCY  # clocks from a port to the register of an item's value
_BUNDLE = 4  # lanes that share one copy of an item's common bits: below 300 loads each


class Modes(enum.Enum):
    """What lanes can do. BOTH: as the item's `combine` bit says."""

    REQUANTISE = enum.auto()
    COMBINE = enum.auto()
    BOTH = enum.auto()


class Lanes(wiring.Component):
    """`lanes` results a clock, each with parameters of its own (`shared`: one set of parameters for all).

    Requantise: `o = requantise(acc + offset, factor, shift, zero, low, high)`; acc + offset within int32, factor below 2^24.
    Combine: `o = combine(a, factor, b, factor_b, offset, shift, zero, low, high)`. All inputs are sampled with `valid`; `o`,
    `o_valid` and `o_tag` (the item's `tag`) come `latency` clocks later. Ports that the modes do not need are absent, and so are
    tags of no bits.
    """

    def __init__(self, lanes: int, modes: Modes, tag_bits: int = 0, *, shared: bool = False) -> None:
        self.lanes, self.modes, self.tag_bits, self.shared = lanes, modes, tag_bits, shared
        self.sums, self.operands = modes is not Modes.COMBINE, modes is not Modes.REQUANTISE
        self.latency = _VALUE_AT + rounding.LATENCY
        eight = data.ArrayLayout(signed(8), lanes)
        ports = {
            "valid": In(1),
            "params": In(params_layout() if shared else data.ArrayLayout(params_layout(), lanes)),
            "zero": In(signed(8)),
            "low": In(signed(8)),
            "high": In(signed(8)),
            "o_valid": Out(1),
            "o": Out(eight),
        }
        if tag_bits:
            ports |= {"tag": In(tag_bits), "o_tag": Out(tag_bits)}
        if self.sums:
            ports |= {"acc": In(data.ArrayLayout(signed(32), lanes))}
        if self.operands:
            ports |= {"a": In(eight), "b": In(eight), "factor_b": In(signed(26))}
        if self.sums and self.operands:
            ports |= {"combine": In(1)}
        super().__init__(ports)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.o_valid.eq(delayed(m, self.valid, self.latency, cleared=True))
        if self.tag_bits:
            m.d.comb += self.o_tag.eq(delayed(m, self.tag, self.latency))
        zero = delayed(m, self.zero, _VALUE_AT + rounding.ZERO_AT)
        low, high = (delayed(m, bound, _VALUE_AT + rounding.CLAMP_AT) for bound in (self.low, self.high))
        factor_b = delayed(m, self.factor_b, 1) if self.operands else None
        answers = []
        for start in range(0, self.lanes, _BUNDLE):
            combine = self._combine(m)
            shared = self._parameters(m, self.params) if self.shared else None
            for lane in range(start, min(start + _BUNDLE, self.lanes)):
                params = shared or self._parameters(m, self.params[lane])
                value = self._value(m, lane, params, combine, factor_b)
                answers.append(rounding.to_int8(m, value, params["shift"][_VALUE_AT], zero, low, high))
        m.d.comb += self.o.as_value().eq(Cat(answers))
        return m

    def _combine(self, m: Module) -> list[Value]:
        """A bundle's `combine` bit: [clocks after the port's]."""
        if not (self.sums and self.operands):
            return [Const(self.operands, 1)] * _VALUE_AT
        return _line(m, self.combine, _VALUE_AT - 1)

    def _parameters(self, m: Module, params: data.View) -> dict[str, list[Value]]:
        """Parameters of a lane, or of a bundle where they are shared: [name][clocks after the port's]."""
        offset_at = 1 + dsp.LATENCY - dsp.C_LATENCY if self.operands else 0
        return {
            "factor": _line(m, params.factor, 1),
            "offset": _line(m, params.offset, offset_at),
            "shift": _line(m, params.shift, _VALUE_AT),
        }

    def _value(self, m: Module, lane: int, params: dict[str, list[Value]], combine: list[Value], factor_b: Value | None) -> Signal:
        """What is to be shifted and rounded: the sum's or the operands' product."""

        def choice(at: int, combined: Value | None, requantised: Value | None) -> Value:
            if not (self.sums and self.operands):
                return combined if self.operands else requantised
            return Mux(combine[at], combined, requantised)

        c = low = high = a = b = None
        if self.sums:
            acc = Signal(signed(32), reset_less=True)
            m.d.sync += acc.eq(self.acc[lane] + params["offset"][0])
            low, high = Cat(acc[:_LOW_BITS], Const(0, 1)), dsp.sign_extended(acc[_LOW_BITS:], dsp.B_BITS)
        if self.operands:
            a, b = (dsp.sign_extended(delayed(m, operand[lane], 1), dsp.B_BITS) for operand in (self.a, self.b))
            c = dsp.sign_extended(params["offset"][-1], dsp.C_BITS)
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
        m.d.sync += value.eq(choice(_VALUE_AT - 1, p1[:_OPERAND_VALUE_BITS].as_signed(), sum_value))
        return value


def _line(m: Module, value: Value, clocks: int) -> list[Value]:
    """`value` 0 to `clocks` clocks later. The first register is kept apart from its equals: it is a copy for fan-out."""
    late = [value]
    for clock in range(clocks):
        register = Signal(value.shape(), reset_less=True, attrs={} if clock else {"keep": "true"})
        m.d.sync += register.eq(late[-1])
        late.append(register)
    return late
