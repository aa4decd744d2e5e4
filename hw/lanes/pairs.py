"""Two lanes that share two DSP48E2: these run at `aclk2x` (`base.timing.FAST`), one lane's item in front of the other's.

Half clocks are counted from 0, the first half of the clock in which the pair's items stand at the lanes' ports. "At h" says that a
register shows the first lane's value in half h; the second lane's follows in h + 1. What both lanes share stands still for both.

| half | sums | operands |
|---|---|---|
| 2 | registers of `aclk`: both sums | both a, both b |
| 3 | FAST: one sum by half, its low and its high part | DSP 0: B1, the first lane's a; D's own register, the second's |
| 4 | DSP 0: B, D; DSP 1: B1 | DSP 0: B2, D |
| 5 | DSP 0: pre-adder; DSP 1: B2, D | DSP 0: pre-adder takes B, then D in its place; DSP 1: B, D |
| 6, 7 | DSP 0: M, P; DSP 1: pre-adder, M | the same |
| 8 | DSP 1: P, with DSP 0's P through the cascade | the same |
| 9 | FAST: the first lane's P of DSP 1; the second lane's stands there itself | the same |
| 10 | registers of `aclk`: both values | the same |

A port that takes a register of `aclk` without one of FAST between them gets the value at an odd half. So DSP 0 has one register
behind A and DSP 1 two, and OPMODE and C of DSP 0, whose values are due at an even half, come through registers of FAST.
"""

from typing import Any, NamedTuple

from amaranth import Cat, Const, Module, Mux, Signal, Value

from cnna.hw.base.attributes import COPY
from cnna.hw.base.timing import FAST, delayed, in_half
from cnna.hw.lanes import dsp

VALUES_AT = 5  # clocks from items at the ports to the registers with their values
LOW_BITS = 17  # of a sum, for DSP 0
_SUM_VALUE_BITS = 56  # of int32 times 24 bits
_OPERAND_VALUE_BITS = 35  # of two products of 8 by 26 bits, and an int32


class Shared(NamedTuple):
    """What the pairs of a bundle share, by the half at which it comes: those at odd halves are registers of FAST.

    `combine` says for each item whether it combines, delayed by 0 to 3 clocks; constant in lanes that do only one of the two.
    """

    factor: Value  # 4: for DSP 0
    second: Value  # 4: the factor for DSP 1
    offset: Value | None = None  # 6: for C of DSP 1, in lanes that only combine
    carried: Value | None = None  # 6: `second` again, for C of DSP 1
    low_offset: Value | None = None  # 3: for D of DSP 0
    high_offset: Value | None = None  # 4: for D of DSP 1
    late_offset: Value | None = None  # 5: for C of DSP 0, in lanes that do both
    combine: list[Value] | None = None
    late_combine: Value | None = None  # 5


def scaled_sums(m: Module, number: int, sums: list[Value], shared: Shared) -> list[Signal]:
    """The values of one or two lanes that requantise, or do both: of each its sum, or its operands as `requant.placed` has them.

    DSP 0 multiplies the low 17 bits of a sum. DSP 1 multiplies the other bits and adds DSP 0's result, shifted right by 17. The
    pre-adders add the offset to each part. To combine, each DSP multiplies one operand.
    """
    assert shared.combine is not None
    combine = shared.combine
    # the low part is unsigned in a sum, and signed in operands
    lows = [delayed(m, Cat(one[:LOW_BITS], one[LOW_BITS - 1] & combine[0]), 1) for one in sums]
    highs = [delayed(m, one[LOW_BITS:], 1) for one in sums]
    low = Signal(LOW_BITS + 1, reset_less=True)
    high = Signal(32 - LOW_BITS, reset_less=True)
    if len(sums) == 2:
        second = in_half(m, second=True)
        m.d[FAST] += [low.eq(Mux(second, *reversed(lows))), high.eq(Mux(second, *reversed(highs)))]
    else:
        m.d[FAST] += [low.eq(lows[0]), high.eq(highs[0])]
    both = shared.late_combine is not None
    added_0, added_1 = dsp.opmode(), dsp.opmode(dsp.ADD_PCIN_SHIFTED, dsp.ALSO_C)
    own_0: dict[str, Any] = {"d": shared.low_offset}
    own_1: dict[str, Any] = {"d": shared.high_offset}
    if both:
        added_0 = Mux(shared.late_combine, dsp.opmode(dsp.ADD_C), dsp.opmode())
        added_1 = Mux(combine[3], dsp.opmode(dsp.ADD_PCIN), added_1)
        own_0 |= {"adds": delayed(m, ~combine[1], 1, domain=FAST), "c": shared.late_offset}
        own_1["adds"] = ~combine[2]
    own_0 |= {"b": low, "opmode": added_0, "registers": {"A": 1}}
    own_1 |= {"b": high, "opmode": added_1, "registers": {"B": 2}, "c": shared.carried}
    p0, p1 = _products(m, number, shared, own_0, own_1)
    lowest = [_lowest(m, p0, "sync", combine[3] if both else None)]
    if len(sums) == 2:
        lowest.append(_lowest(m, p0, FAST, delayed(m, combine[3], 1, attrs=COPY) if both else None))
    return _values(m, p1[: _SUM_VALUE_BITS - LOW_BITS], lowest)


def _lowest(m: Module, p: Value, domain: str, combine: Value | None) -> Signal:
    """What DSP 0 gives of a sum's value below DSP 1's, in a register: 0 for an item that combines."""
    lowest = Signal(LOW_BITS, reset_less=True)
    m.d[domain] += lowest.eq(p[:LOW_BITS])
    if combine is not None:
        with m.If(combine):
            m.d[domain] += lowest.eq(0)
    return lowest


def combined_operands(m: Module, number: int, a: list[Value], b: list[Value], shared: Shared) -> list[Signal]:
    """The values of one or two lanes that only combine. A pre-adder takes the first lane's operand, then the second's."""
    first, second = in_half(m, second=False), in_half(m, second=True)
    a, b = [delayed(m, one, 1) for one in a], [delayed(m, one, 2) for one in b]
    late = delayed(m, a[-1], 1, domain=FAST)
    own_0 = {"b": a[0], "d": dsp.sign_extended(late, dsp.D_BITS), "adds": first, "replaces": first, "opmode": dsp.opmode()}
    own_1 = {"b": b[0], "d": dsp.sign_extended(b[-1], dsp.D_BITS), "adds": second, "replaces": second, "c": shared.offset}
    own_1["opmode"] = dsp.opmode(dsp.ADD_PCIN, dsp.ALSO_C)
    own_0["registers"] = {"A": 1, "B": 2}
    _, p1 = _products(m, number, shared, own_0, own_1)
    return _values(m, p1[:_OPERAND_VALUE_BITS], [Const(0, 0)] * len(a))


def _products(m: Module, number: int, shared: Shared, *own: dict[str, Any]) -> list[Signal]:
    """P of both DSPs of a pair. `own` has the ports that differ; B and C may be narrower than the ports."""
    found, pcin = [], None
    for index, (ports, factor) in enumerate(zip(own, (shared.factor, shared.second), strict=True)):
        p, pcout = (Signal(dsp.P_BITS, name=f"dsp{index}_{name}") for name in ("p", "pcout"))
        ports = ports | {"a": dsp.sign_extended(factor, dsp.A_BITS), "b": dsp.sign_extended(ports["b"], dsp.B_BITS), "p": p}
        if "c" in ports:
            ports["c"] = dsp.sign_extended(ports["c"], dsp.C_BITS)
        ports |= {"pcout": pcout} if pcin is None else {"pcin": pcin}
        m.submodules[f"dsp{index}_{number}"] = dsp.dsp48e2(d_to="B", domain=FAST, **ports)
        found.append(p)
        pcin = pcout
    return found


def _values(m: Module, p: Value, lowest: list[Value]) -> list[Signal]:
    """The values of the lanes, signed, in registers of `aclk`: `p` with `lowest` below it.

    When `p` is the second lane's, the first lane's is in a register of FAST.
    """
    parts = [delayed(m, p, 1, domain=FAST), p]
    return [delayed(m, Cat(low, part).as_signed(), 1) for low, part in zip(lowest, parts, strict=False)]
