"""When a pixel group may end: how fast the drain behind an engine takes groups, and the room behind its lanes."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class GroupCredit(wiring.Component):
    """Keeps group ends `cost` clocks apart and books `cost` items for each (`short`: half as many) of `room`.

    `end` is only set while `ok` is. `room_free` gives an item back. `ok` comes from a register.
    """

    def __init__(self, cost: int, room: int) -> None:
        assert room >= 2 * cost >= 4, f"room of {room} items for groups of {cost}"
        self.cost, self.room = cost, room
        super().__init__({"end": In(1), "short": In(1), "room_free": In(1), "ok": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        cost = self.cost
        wait, free = Signal(range(cost)), Signal(range(self.room + 1), init=self.room)
        with m.If(self.end):
            m.d.sync += [wait.eq(cost - 1), self.ok.eq(0)]
        with m.Else():
            m.d.sync += [wait.eq(Mux(wait == 0, 0, wait - 1)), self.ok.eq((wait[1:] == 0) & (free >= cost))]
        m.d.sync += free.eq(free - Mux(self.end, Mux(self.short, cost // 2, cost), 0) + self.room_free)
        return m
