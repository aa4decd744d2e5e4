"""What keeps paths between registers short: delay lines, counts whose limits are known a clock ahead, and copies of the reset.

They are functions that add registers to a module of the caller.

*The second clock.* Domain FAST is on `aclk2x`, whose rising edges fall on those of `aclk` and in the middle between them. So a
clock of `aclk` has two *halves*. A register of `aclk` changes at the beginning of the first half. A register of FAST that samples
it shows the value from the second half on. Between a register of either clock and one of FAST stands one LUT at most, and a net
there has at most 64 loads; `tools/joined.py` checks this. FAST has no reset.
"""

from typing import NamedTuple

from amaranth import ClockDomain, DomainRenamer, Module, Mux, Signal, Value
from amaranth.hdl import Elaboratable, Fragment
from amaranth.lib import data, wiring

from cnna.hw.base.attributes import COPY

FAST = "fast"  # the domain of `aclk2x`


def delayed(
    m: Module,
    value: Value | data.View,
    clocks: int,
    *,
    cleared: bool = False,
    attrs: dict[str, str] | None = None,
    domain: str = "sync",
) -> Value | data.View:
    """`value` as it was `clocks` clocks ago (0: itself), same shape.

    The registers have no reset, so that synthesis may put them into shift register LUTs. With `cleared`, reset sets them to 0: what
    decides that a value counts (`valid` bits) needs that. `attrs`: attributes of the last register.
    """
    for left in reversed(range(clocks)):
        late = Signal(value.shape(), reset_less=not cleared, attrs=None if left else attrs)
        m.d[domain] += late.eq(value)
        value = late
    return value


def in_half(m: Module, *, second: bool, when: Value | None = None) -> Signal:
    """A register of FAST that is 1 in the second (otherwise in the first) half of each clock; the caller minds its loads.

    With `when`, a register of `aclk`, it is 1 only in the second half of clocks with `when` (otherwise the first half of the clocks
    behind them).

    A register of `aclk` toggles, and one of FAST follows half a clock later: they differ in the first half. No reset stops them, so
    whatever happens to the clocks or to the reset, the halves are known two clocks later.
    """
    toggle, late = (Signal(name=name, reset_less=True, attrs=COPY) for name in ("toggle_copy", "late_copy"))
    half = Signal(name="half_copy", reset_less=True, attrs=COPY)
    m.d.sync += toggle.eq(~toggle)
    shown = (toggle ^ late) == second
    m.d[FAST] += [late.eq(toggle), half.eq(shown if when is None else shown & when)]
    return half


class Tally(NamedTuple):
    """A count of what is under way. All three come from registers: a comparison after the sum would be half of a clock's path."""

    count: Signal
    some: Signal  # the count is not 0
    room: Signal  # the count is below the limit


def tally(m: Module, most: int, up: Value, down: Value, limit: int | None = None, *, attrs: dict[str, str] | None = None) -> Tally:
    """A count within 0..most in domain `sync`. `up` and `down` in the same clock leave it as it is. `room` ends at `limit`.

    The user sets `up` only if it has seen `room`, and `down` only if it has seen `some`. `attrs`: attributes of the registers.
    """
    limit = most if limit is None else limit
    count = Signal(range(most + 1), attrs=attrs)
    some = Signal(attrs=attrs)
    room = Signal(init=1, attrs=attrs)
    with m.If(up ^ down):  # the sums depend on `up` alone, so that a late `down` only enables
        m.d.sync += [
            count.eq(Mux(up, count + 1, count - 1)),
            some.eq(up | (count != 1)),
            room.eq(Mux(up, count < limit - 1, count <= limit)),
        ]
    return Tally(count, some, room)


def own_reset(block: wiring.Component, clock: Signal, reset: Signal) -> Elaboratable:
    """A module of the core with its own copy of the core's reset: one net for all modules would lead through the whole chip.

    The module's domain `sync` is on `clock` and is reset a clock after `reset`, by a register in domain `reset`. All copies are
    registers of the same value, so every module leaves the reset in the same clock; `attributes.py` keeps them apart.
    """
    return DomainRenamer("own")(_OwnReset(block, clock, reset))


class _OwnReset(Elaboratable):
    def __init__(self, block: wiring.Component, clock: Signal, reset: Signal) -> None:
        self._block, self._clock, self._reset = block, clock, reset

    def elaborate(self, platform: object) -> Fragment:
        fragment = Fragment.get(self._block, platform)
        own = ClockDomain("own", local=True)
        own.clk, own.rst = self._clock, Signal(name="core_rst", attrs=COPY)
        fragment.add_domains(own)
        fragment.add_statements("reset", own.rst.eq(self._reset))
        return fragment
