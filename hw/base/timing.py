"""What keeps paths between registers short: delay lines, counts whose limits are known a clock ahead, and copies of the reset.

They are functions that add registers to a module of the caller.
"""

from typing import NamedTuple

from amaranth import ClockDomain, DomainRenamer, Module, Mux, Signal, Value
from amaranth.hdl import Elaboratable, Fragment
from amaranth.lib import data, wiring

from cnna.hw.base.attributes import COPY


def delayed(
    m: Module, value: Value | data.View, clocks: int, *, cleared: bool = False, attrs: dict[str, str] | None = None
) -> Value | data.View:
    """`value` as it was `clocks` clocks ago (0: itself), same shape.

    The registers have no reset, so that synthesis may put them into shift register LUTs. With `cleared`, reset sets them to 0: what
    decides that a value counts (`valid` bits) needs that. `attrs`: attributes of the last register.
    """
    for left in reversed(range(clocks)):
        late = Signal(value.shape(), reset_less=not cleared, attrs=None if left else attrs)
        m.d.sync += late.eq(value)
        value = late
    return value


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
    count, some = Signal(range(most + 1), attrs=attrs), Signal(attrs=attrs)
    room = Signal(init=1, attrs=attrs)
    with m.If(up ^ down):  # the sums depend on `up` alone, so that a late `down` only enables
        m.d.sync += [
            count.eq(Mux(up, count + 1, count - 1)),
            some.eq(up | (count != 1)),
            room.eq(Mux(up, count < limit - 1, count <= limit)),
        ]
    return Tally(count, some, room)


def own_reset(block: wiring.Component, clock: Signal, reset: Signal) -> Elaboratable:
    """A block of the core with its own copy of the core's reset: one net for all blocks would lead through the whole chip.

    The block's domain `sync` is on `clock` and is reset a clock after `reset`, by a register in domain `reset`. All copies are
    registers of the same value, so every block leaves the reset in the same clock; `attributes.py` keeps them apart.
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
