"""Decides when a pixel group may end: the drain needs time for each group, and its results need room behind the lanes."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class GroupCredit(wiring.Component):
    """Keeps the ends of groups at least `cost` clocks apart, and books `cost` of `room` items for each group.

    A `short` group books half as many. No group may end in the clock after one with `hold`. The user sets `end` only while `ok` is
    set, which comes from a register. `room_free` gives one item back.
    """

    def __init__(self, cost: int, room: int) -> None:
        assert room >= 2 * cost >= 4, f"room of {room} items for groups of {cost}"
        self.cost, self.room = cost, room
        super().__init__({"end": In(1), "short": In(1), "hold": In(1), "room_free": In(1), "ok": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        cost = self.cost
        wait = Signal(range(cost))
        free = Signal(range(self.room + 1), init=self.room)
        with m.If(self.end):
            m.d.sync += [wait.eq(cost - 1), self.ok.eq(0)]
        with m.Else():
            m.d.sync += [wait.eq(Mux(wait == 0, 0, wait - 1)), self.ok.eq((wait[1:] == 0) & (free >= cost) & ~self.hold)]
        m.d.sync += free.eq(free - Mux(self.end, Mux(self.short, cost // 2, cost), 0) + self.room_free)
        return m
