"""Lanes that bring sums to int8: `arith.requantise` and `arith.combine`, with two DSP48E2 each.

Used three times: behind the array (requantise), for the residual add (combine), and in the vector engine (either,
item by item). They run free: one item a clock, `latency` clocks late, nothing holds them still. `bundle.py` has what they do.
"""

from amaranth import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cnna.hw import bundle, rounding
from cnna.hw.bundle import VALUE_AT, Bundle, Modes, lane_ports
from cnna.hw.delay import delayed

__all__ = ["Lanes", "Modes"]


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
        self.latency = VALUE_AT + rounding.LATENCY
        tag = {"tag": In(tag_bits), "o_tag": Out(tag_bits)} if tag_bits else {}
        super().__init__({"valid": In(1), "o_valid": Out(1), **tag, **lane_ports(lanes, modes, shared=shared)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.o_valid.eq(delayed(m, self.valid, self.latency, cleared=True))
        if self.tag_bits:
            m.d.comb += self.o_tag.eq(delayed(m, self.tag, self.latency))
        common = {"zero": delayed(m, self.zero, VALUE_AT + rounding.ZERO_AT)}
        common |= {name: delayed(m, getattr(self, name), VALUE_AT + rounding.CLAMP_AT) for name in ("low", "high")}
        if self.operands:
            common["factor_b"] = delayed(m, self.factor_b, 1)
        if self.sums and self.operands:
            common["combine"] = self.combine
        if self.shared:
            common["params"] = self.params
        own = [*(["acc"] * self.sums), *(["a", "b"] * self.operands), *(["params"] * (not self.shared))]
        answers = []
        for start in range(0, self.lanes, bundle.LANES):
            lanes = range(start, min(start + bundle.LANES, self.lanes))
            m.submodules[f"bundle{start}"] = one = Bundle(len(lanes), self.modes, shared=self.shared)
            m.d.comb += [getattr(one, name).eq(value) for name, value in common.items()]
            m.d.comb += [getattr(one, name).eq(Cat(getattr(self, name)[lane] for lane in lanes)) for name in own]
            answers.append(one.o)
        m.d.comb += self.o.as_value().eq(Cat(answers))
        return m
