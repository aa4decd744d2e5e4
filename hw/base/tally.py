"""A count of what is under way, with its limits known ahead: whether it is none and whether it is all are registers.

FIFOs (`queue.py`), bus masters and engines count so: a comparison after the sum would be half of a clock's path.
"""

from typing import NamedTuple

from amaranth import Module, Mux, Signal, Value


class Tally(NamedTuple):
    """All three come from registers."""

    count: Signal
    some: Signal  # the count is not 0
    room: Signal  # the count is below the limit


def tally(m: Module, most: int, up: Value, down: Value, limit: int | None = None, *, attrs: dict[str, str] | None = None) -> Tally:
    """A count within 0..most in domain `sync`; `up` and `down` in one clock leave it. `room` ends at `limit`.

    Whoever counts up has seen room for it, whoever counts down has seen some. `attrs`: attributes of the registers.
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
