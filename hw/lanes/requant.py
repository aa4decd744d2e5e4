"""Lanes that bring sums to int8: `arith.requantise` and `arith.combine`, with two DSP48E2 each.

Used three times: behind the array (requantise), for the residual add (combine), and in the vector engine (either,
item by item). They run free: one item a clock, `latency` clocks late, nothing holds them still. `bundle.py` has what they do.
"""

from amaranth import Cat, Module, Mux, Signal, Value, ValueLike, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.ports import params_layout
from cnna.hw.base.timing import delayed
from cnna.hw.lanes import bundle, rounding
from cnna.hw.lanes.bundle import VALUE_AT, Bundle, Modes, lane_ports
from cnna.hw.lanes.dsp import sign_extended

__all__ = ["Lanes", "Modes", "placed"]


class Lanes(wiring.Component):
    """`lanes` results a clock, by `sets` sets of parameters: lane i's is set i % `sets`.

    Requantise: `o = requantise(acc + offset, factor, shift, zero, low, high)`; acc + offset within int32, factor below 2^24.
    Combine: `o = combine(a, factor, b, factor_b, offset, shift, zero, low, high)`; in lanes that do both, where the item's
    `combine` says so, with what `placed(a, b)` makes of them at `acc`. All inputs are sampled with `valid`; `o`, `o_valid` and
    `o_tag` (the item's `tag`) come `latency` clocks later. Ports that the modes do not need are absent, and so are tags of no bits.
    """

    def __init__(self, lanes: int, modes: Modes, tag_bits: int = 0, *, sets: int = 1) -> None:
        self.lanes, self.modes, self.tag_bits, self.sets = lanes, modes, tag_bits, sets
        self.sums, self.operands = modes is not Modes.COMBINE, modes is not Modes.REQUANTISE
        self.latency = VALUE_AT + rounding.LATENCY
        ports = {"valid": In(1), "o_valid": Out(1), "params": In(data.ArrayLayout(params_layout(), sets))}
        ports |= dict.fromkeys(("zero", "low", "high"), In(signed(8)))
        if tag_bits:
            ports |= {"tag": In(tag_bits), "o_tag": Out(tag_bits)}
        if self.operands:
            ports["factor_b"] = In(signed(26))
        if self.sums and self.operands:
            ports["combine"] = In(1)
        super().__init__({**ports, **lane_ports(lanes, modes)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.o_valid.eq(delayed(m, self.valid, self.latency, cleared=True))
        if self.tag_bits:
            m.d.comb += self.o_tag.eq(delayed(m, self.tag, self.latency))
        common = self._common(m)
        for number in range(self.sets):
            params = self._parameters(m, self.params[number])
            mine = range(number, self.lanes, self.sets)
            for start in range(0, len(mine), bundle.LANES):
                lanes = mine[start : start + bundle.LANES]
                m.submodules[f"bundle{lanes[0]}"] = one = Bundle(len(lanes), self.modes)
                m.d.comb += [getattr(one, name).eq(value) for name, value in (common | params).items()]
                for name in ("acc",) if self.sums else ("a", "b"):
                    m.d.comb += getattr(one, name).eq(Cat(getattr(self, name)[lane] for lane in lanes))
                m.d.comb += [self.o[lane].eq(one.o[index]) for index, lane in enumerate(lanes)]
        return m

    def _common(self, m: Module) -> dict[str, Value]:
        """What all bundles get, when they need it."""
        base, span = Signal(signed(9), reset_less=True), Signal(8, reset_less=True)
        m.d.sync += [base.eq(self.zero - self.low), span.eq(self.high - self.low)]
        clamp_at = VALUE_AT + rounding.CLAMP_AT
        common = {"base": delayed(m, base, VALUE_AT + rounding.BASE_AT - 1), "span": delayed(m, span, clamp_at - 1)}
        common["low"] = delayed(m, self.low, clamp_at)
        if self.operands:
            common["factor_b"] = delayed(m, self.factor_b, 1)
        if self.sums and self.operands:
            common["combine"] = self.combine
        return common

    def _parameters(self, m: Module, params: data.View) -> dict[str, Value]:
        """A set's parameters, when its bundles need them."""
        shift = params.shift
        if self.sums and self.operands:
            # an operands' product stands where a sum's has its high part; 63 shifts all of it out, as anything from 35 up does
            raised = params.shift + bundle.LOW_BITS
            shift = Mux(self.combine, raised[:6] | raised[6].replicate(6), params.shift)
        return {
            "factor": params.factor,
            "offset": params.offset if self.sums else delayed(m, params.offset, bundle.OFFSET_AT),
            "shift": delayed(m, shift, VALUE_AT - 1),
        }


def placed(a: ValueLike, b: ValueLike) -> Value:
    """Operands (int8) as lanes that also requantise take them, 32 bits."""
    return Cat(sign_extended(a, bundle.LOW_BITS), sign_extended(b, 32 - bundle.LOW_BITS))
