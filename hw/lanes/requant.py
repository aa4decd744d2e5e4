"""Lanes that turn sums into int8: `arith.requantise` and `arith.combine`, with two DSP48E2 for each pair of lanes (`pairs.py`).

They are used three times: behind the array (requantise), in the residual add (combine), and in the vector engine, where each
item says which of the two it wants. Lanes cannot be stopped: they take one item a clock and answer LATENCY clocks later.

`Lanes` consists of `LaneBundle`s, each a module by itself. Synthesis looks at one module of all that are alike, and attributes
keep their copies of an item's common bits apart. In a bundle of an odd number of lanes, the last one has its DSPs for itself.
"""

import enum

from amaranth import Cat, Const, Module, Mux, Signal, Value, ValueLike, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.attributes import COPY, PAIR
from cnna.hw.base.ports import params_layout
from cnna.hw.base.timing import FAST, delayed
from cnna.hw.lanes import dsp, pairs, rounding
from cnna.hw.lanes.dsp import sign_extended
from cnna.hw.lanes.pairs import LOW_BITS, Shared

BUNDLE_LANES = 4  # at most in one bundle: each common bit has fewer than 300 loads
VALUE_AT = pairs.VALUES_AT
LATENCY = VALUE_AT + rounding.LATENCY  # clocks from an item to its results
FACTOR_AT, OFFSET_AT = 1, 2  # clocks from an item to its factors; to its offset, in lanes that only combine


class Modes(enum.Enum):
    """What lanes can do. With BOTH, the `combine` bit of each item decides."""

    REQUANTISE = enum.auto()
    COMBINE = enum.auto()
    BOTH = enum.auto()


def lane_ports(lanes: int, modes: Modes) -> dict[str, wiring.Member]:
    """The ports that each lane has for itself: a sum or two operands in, an int8 out."""
    ports = {"o": Out(data.ArrayLayout(signed(8), lanes))}
    if modes is not Modes.COMBINE:
        return ports | {"acc": In(data.ArrayLayout(signed(32), lanes))}
    return ports | dict.fromkeys("ab", In(data.ArrayLayout(signed(8), lanes)))


class LaneBundle(wiring.Component):
    """`count` lanes with the same parameters. The ports are those of `Lanes`, but some come only when they are needed.

    Clocks after the item's other ports: `factor` and `factor_b` FACTOR_AT; `offset` OFFSET_AT in lanes that only combine,
    otherwise 0; `shift` VALUE_AT - 1; `base` VALUE_AT + rounding.BASE_AT; `low` and `span` VALUE_AT + rounding.CLAMP_AT.
    `rounding.to_int8` explains `base` and `span`.
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
        shared = self._shared(m)
        shift = rounding.amounts(m, self.shift)
        answers = []
        for start in range(0, self.count, 2):
            lanes = range(start, min(start + 2, self.count))
            if self.sums:
                values = pairs.scaled_sums(m, start, [self.acc[lane].as_unsigned() for lane in lanes], shared)
            else:
                a, b = ([port[lane] for lane in lanes] for port in (self.a, self.b))
                values = pairs.combined_operands(m, start, a, b, shared)
            answers += [rounding.to_int8(m, value, shift, self.base, self.span, self.low) for value in values]
        m.d.comb += self.o.as_value().eq(Cat(answers))
        return m

    def _shared(self, m: Module) -> Shared:
        """What all lanes of the bundle get, delayed to the halves in which it is needed."""
        factor = delayed(m, self.factor, 1, attrs=COPY)
        if not self.sums:
            second = delayed(m, self.factor_b, 1, attrs=COPY)
            return Shared(factor, second, offset=delayed(m, self.offset, 1, attrs=COPY))
        offset = _line(m, self.offset, 2)
        low_offset = delayed(m, offset[1][:LOW_BITS], 1, domain=FAST)
        # D is 2^17 too small, so that the pre-adder's sum fits into 18 bits; the factor at DSP 1's C makes up for it
        low_offset = Cat(low_offset, Const(-1, dsp.D_BITS - LOW_BITS))
        high_offset = sign_extended(offset[2][LOW_BITS:], dsp.D_BITS)
        if not self.operands:
            combine = [Const(0, 1)] * (VALUE_AT - 1)
            return Shared(factor, factor, None, delayed(m, factor, 1, attrs=COPY), low_offset, high_offset, None, combine, None)
        combine = _line(m, self.combine, VALUE_AT - 2)
        second = delayed(m, Mux(combine[1], self.factor_b, self.factor), 1, attrs=COPY)
        late_offset, late_combine = (delayed(m, value, 1, domain=FAST) for value in (offset[2], combine[2]))
        carried = delayed(m, second, 1, attrs=COPY)
        return Shared(factor, second, None, carried, low_offset, high_offset, late_offset, combine, late_combine)


def _line(m: Module, value: Value, clocks: int) -> list[Value]:
    """`value` delayed by 0 to `clocks` clocks, a list; all lanes of a bundle share it."""
    late = [value]
    for _ in range(clocks):
        late.append(delayed(m, late[-1], 1, attrs=COPY))
    return late


class Lanes(wiring.Component):
    """`lanes` results a clock. There are `sets` sets of parameters; lane i uses set i % `sets`.

    Requantise: `o = requantise(acc + offset, factor, shift, zero, low, high)`; acc + offset must fit into int32, factor is below
    2^24. Combine: `o = combine(a, factor, b, factor_b, offset, shift, zero, low, high)`. Lanes that can do both combine the items
    whose `combine` is set, and take `placed(a, b)` at `acc`.

    All inputs are sampled with `valid`. `o`, `o_valid` and `o_tag` (the item's `tag`) come LATENCY clocks later. Ports that the
    modes do not need are absent; so are `tag` and `o_tag` if `tag_bits` is 0.
    """

    def __init__(self, lanes: int, modes: Modes, tag_bits: int = 0, *, sets: int = 1) -> None:
        self.lanes, self.modes, self.tag_bits, self.sets = lanes, modes, tag_bits, sets
        self.sums, self.operands = modes is not Modes.COMBINE, modes is not Modes.REQUANTISE
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
        m.d.comb += self.o_valid.eq(delayed(m, self.valid, LATENCY, cleared=True))
        if self.tag_bits:
            m.d.comb += self.o_tag.eq(delayed(m, self.tag, LATENCY))
        common = self._common(m)
        for number in range(self.sets):
            params = self._parameters(m, self.params[number])
            mine = range(number, self.lanes, self.sets)
            for start in range(0, len(mine), BUNDLE_LANES):
                lanes = mine[start : start + BUNDLE_LANES]
                m.submodules[f"bundle{lanes[0]}"] = one = LaneBundle(len(lanes), self.modes)
                m.d.comb += [getattr(one, name).eq(value) for name, value in (common | params).items()]
                for name in ("acc",) if self.sums else ("a", "b"):
                    m.d.comb += getattr(one, name).eq(Cat(getattr(self, name)[lane] for lane in lanes))
                m.d.comb += [self.o[lane].eq(one.o[index]) for index, lane in enumerate(lanes)]
        return m

    def _common(self, m: Module) -> dict[str, Value]:
        """What every bundle gets, delayed to the clock in which it is needed."""
        base = Signal(signed(9), reset_less=True)
        span = Signal(8, reset_less=True)
        m.d.sync += [base.eq(self.zero - self.low), span.eq(self.high - self.low)]
        clamp_at = VALUE_AT + rounding.CLAMP_AT
        common = {"base": delayed(m, base, VALUE_AT + rounding.BASE_AT - 1), "span": delayed(m, span, clamp_at - 1)}
        common["low"] = delayed(m, self.low, clamp_at)
        if self.operands:
            common["factor_b"] = delayed(m, self.factor_b, FACTOR_AT)
        if self.sums and self.operands:
            common["combine"] = self.combine
        return common

    def _parameters(self, m: Module, params: data.View) -> dict[str, Value]:
        """The parameters of one set, delayed to the clocks in which its bundles need them."""
        shift = params.shift
        if self.sums and self.operands:
            # the operands' product stands 17 bits up; 63 shifts all of it out, as any shift from 35 up does
            raised = params.shift + LOW_BITS
            shift = Mux(self.combine, raised[:6] | raised[6].replicate(6), params.shift)
        return {
            "factor": delayed(m, params.factor, FACTOR_AT),
            "offset": params.offset if self.sums else delayed(m, params.offset, OFFSET_AT, attrs=PAIR),
            "shift": delayed(m, shift, VALUE_AT - 1),
        }


def placed(a: ValueLike, b: ValueLike) -> Value:
    """Two int8 operands as one 32-bit value, for the `acc` of lanes that do both."""
    return Cat(sign_extended(a, LOW_BITS), sign_extended(b, 32 - LOW_BITS))
