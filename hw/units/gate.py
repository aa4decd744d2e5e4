"""Lets an engine's reads begin unit by unit, as the WAIT registers of its commands say.

It runs ahead of the engine: while `fetch` reads one unit, the next is already checked, so that a wait that is met costs nothing.
"""

from amaranth import Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.ports import Permit
from cnna.hw.units.tokens import COUNTS, UNIT_BITS, Waiter, waits_layout
from cnna.spec.regmap import COUNTED


def gate_layout(readers: int) -> data.StructLayout:
    """`walks`: units of the walks to permit; `readers`: which of the readers take part (a bit each)."""
    return data.StructLayout({"waits": waits_layout(), "walks": unsigned(UNIT_BITS), "readers": unsigned(readers)})


class Gate(wiring.Component):
    """Permits each walk's units to `readers` fetches; `span` walk units are one unit that other engines count.

    `blocked` names the engines waited for, a bit each, while there is such a wait. `given` pulses once for each walk unit,
    when every reader has its permit.
    """

    def __init__(self, readers: int, span: int) -> None:
        self.readers, self.span = readers, span
        super().__init__(
            {
                "command": In(stream.Signature(gate_layout(readers))),
                "done": In(COUNTS),
                "permit": Out(Permit()).array(readers),
                "blocked": Out(len(COUNTED)),
                "given": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.waiter = waiter = Waiter()
        command = Signal(gate_layout(self.readers))
        unit, inner, owed = Signal(UNIT_BITS), Signal(range(max(self.span, 2))), Signal(self.readers)
        m.d.comb += [waiter.waits.eq(command.waits), waiter.unit.eq(unit), waiter.done.eq(self.done)]
        accepted = Signal(self.readers)
        for index in range(self.readers):
            m.d.comb += self.permit[index].valid.eq(owed[index])
            m.d.comb += accepted[index].eq(self.permit[index].ready)
        m.d.sync += owed.eq(owed & ~accepted)

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.command.ready.eq(1)
                m.d.sync += [command.eq(self.command.p), unit.eq(0), inner.eq(0)]
                with m.If(self.command.valid):
                    m.next = "CHECK"
            with m.State("CHECK"):
                m.d.comb += waiter.check.eq(1)
                m.next = "WAIT"
            with m.State("WAIT"):
                m.d.comb += self.blocked.eq(waiter.blocked)
                with m.If(waiter.clear):
                    m.d.sync += owed.eq(command.readers)
                    m.next = "GIVE"
            with m.State("GIVE"), m.If(~(owed & ~accepted).any()):
                m.d.comb += self.given.eq(1)
                m.d.sync += [command.walks.eq(command.walks - 1), inner.eq(inner + 1)]
                with m.If(command.walks == 1):
                    m.next = "IDLE"
                with m.Elif(inner == self.span - 1):
                    m.d.sync += [inner.eq(0), unit.eq(unit + 1)]
                    m.next = "CHECK"
                with m.Else():
                    m.d.sync += owed.eq(command.readers)
        return m
