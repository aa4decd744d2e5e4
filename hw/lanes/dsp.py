"""One DSP48E2 as this project uses it: `P = A * B + Z`, `(A + D) * B + Z` or `A * (B + D) + Z + W`, with a register in each step.

`array`, `vector.products` and `pairs` make their multipliers here. In simulation `sim/rtl/dsp48e2.v` stands in for the primitive.
Names and meanings are those of the vendor's user guide UG579.

Packing: with `packed(w1, w0)` on A and D and x on B, P = (w1 * x << 18) + w0 * x. LANE_PRESET is added once to the sum, so
that the low lane P[17:0] never goes negative. Then the high lane is P[47:18], and the low lane is P[17:0] - LANE_PRESET. Lanes
may have another number of bits than 18; the preset is then half of what the low lane holds.
"""

from amaranth import Cat, ClockSignal, Const, Instance, Signal, Value, ValueLike

A_BITS, B_BITS, C_BITS, D_BITS, P_BITS = 30, 18, 48, 27, 48
LATENCY = 4  # clocks from A, B, D and a driven `adds` to P and PCOUT, unless a port has another number of registers
C_LATENCY = 2  # clocks from C and a driven OPMODE to P and PCOUT
LANE_BITS = 18  # from the low product of a packed pair to the high one
LANE_PRESET = 1 << (LANE_BITS - 1)

# What the adder adds to the product, for `opmode`.
ADD_PCIN = 0b00_001_00_00
ADD_PCIN_SHIFTED = 0b00_101_00_00  # PCIN >> 17
ADD_C = 0b00_011_00_00
ADD_RND = 0b10_000_00_00
ALSO_C = 0b11_000_00_00  # beside one of PCIN
ALSO_P = 0b01_000_00_00  # beside one of PCIN: the sum of the clock before

_ZERO, _ONE = Const(0, 1), Const(1, 1)
_ENABLES = ("A1", "A2", "AD", "ALUMODE", "B1", "B2", "C", "CARRYIN", "CTRL", "D", "INMODE", "M", "P")
_RESETS = ("A", "ALLCARRYIN", "ALUMODE", "B", "C", "CTRL", "D", "INMODE", "M", "P")
_TIED = {  # inputs that this project never drives
    **{f"i_CE{name}": _ONE for name in _ENABLES},
    **{f"i_RST{name}": _ZERO for name in _RESETS},
    "i_ACIN": Const(0, A_BITS),
    "i_BCIN": Const(0, B_BITS),
    "i_ALUMODE": Const(0, 4),
    "i_CARRYCASCIN": _ZERO,
    "i_CARRYIN": _ZERO,
    "i_CARRYINSEL": Const(0, 3),
    "i_MULTSIGNIN": _ZERO,
}
# Control inputs that are constant have no register: it would only delay the constant once, after configuration.
_STATIC = {"p_ALUMODEREG": 0, "p_CARRYINREG": 0, "p_CARRYINSELREG": 0}
_PLAIN = {**_STATIC, **_TIED, "p_AMULTSEL": "A"}
_PREADDED = {  # by the port that D is added to
    "A": {**_STATIC, **_TIED, "p_AMULTSEL": "AD"},
    "B": {**_STATIC, **_TIED, "p_AMULTSEL": "A", "p_BMULTSEL": "AD", "p_PREADDINSEL": "B"},
}
_WIDTHS = {"A": A_BITS, "B": B_BITS, "C": C_BITS, "D": D_BITS, "PCIN": P_BITS, "OPMODE": 9}
_NO_C, _NO_D, _NO_PCIN = Const(0, C_BITS), Const(0, D_BITS), Const(0, P_BITS)


def sign_extended(value: ValueLike, bits: int) -> Value:
    """`value` widened to `bits` bits by its sign, which is its top bit: a DSP48E2 port must be driven at its full width."""
    value = Value.cast(value)
    return Cat(value, value[-1].replicate(bits - len(value)))


def packed(high: ValueLike, low: ValueLike, bits: int = LANE_BITS) -> tuple[Value, Value]:
    """The A and D ports for `(high << bits) + low`, both int8."""
    high = Value.cast(high)
    return sign_extended(Cat(Const(0, bits), high), A_BITS), sign_extended(low, D_BITS)


def opmode(*added: int) -> Const:
    """The OPMODE port for the product (X = Y = M) and the ADD_* and ALSO_C terms that are added to it."""
    return Const(0b00_000_01_01 | sum(added), 9)


def low_lane(p: Value, bits: int = LANE_BITS) -> Value:
    """The signed low lane of a packed sum that contains its preset once."""
    return Cat(p[: bits - 1], ~p[bits - 1]).as_signed()


def dsp48e2(
    *,
    a: Value,
    b: Value,
    d: Value | None = None,
    d_to: str = "A",
    adds: Value = _ONE,
    replaces: Value = _ZERO,
    c: Value | None = None,
    pcin: Value | None = None,
    rnd: int = 0,
    opmode: Value,
    p: Signal | None = None,
    pcout: Signal | None = None,
    domain: str = "sync",
    registers: dict[str, int] | None = None,
) -> Instance:
    """A multiplier with all ports at their full widths (A 30, B 18, C 48, D 27, P 48 bits).

    Before the multiplication, the pre-adder adds `d` to the port `d_to` for items whose `adds` is 1. `d_to` is "A", or "B", where
    the sum must fit into 18 bits. For items whose `replaces` is 1 too, `d` stands in for that port. A constant `opmode`, `adds` or
    `replaces` has no register; a driven one has a register inside the DSP. `registers` are those behind A and B (1 or 2), where
    they are not those of LATENCY: 2, and 1 before the pre-adder, whose sum has a register too.
    """
    ports = dict(_PLAIN if d is None else _PREADDED[d_to])
    static = d is None or (isinstance(adds, Const) and isinstance(replaces, Const))
    ports["i_INMODE"] = Const(0, 5) if d is None else Cat(Const(0, 1), replaces, adds, Const(0, 2))
    ports["p_INMODEREG"] = 0 if static else 1
    for port, count in ({"A": 2, "B": 2} | ({} if d is None else {d_to: 1}) | (registers or {})).items():
        ports[f"p_{port}REG"] = ports[f"p_{port}CASCREG"] = count
    ports["i_CLK"] = ClockSignal(domain)
    ports["i_A"], ports["i_B"] = a, b
    ports["i_C"] = _NO_C if c is None else c
    ports["i_D"] = _NO_D if d is None else d
    ports["i_PCIN"] = _NO_PCIN if pcin is None else pcin
    ports["i_OPMODE"], ports["p_OPMODEREG"] = opmode, 0 if isinstance(opmode, Const) else 1
    assert all(len(ports[f"i_{name}"]) == bits for name, bits in _WIDTHS.items())
    if rnd:
        ports["p_RND"] = Const(rnd, P_BITS)
    ports["o_P"] = Signal(P_BITS, name="unused_p") if p is None else p
    ports["o_PCOUT"] = Signal(P_BITS, name="unused_pcout") if pcout is None else pcout
    return Instance("DSP48E2", **ports)
