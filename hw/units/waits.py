"""How engines wait for each other: counts of finished units, and checks of a command's WAIT registers against them.

`top` has one `UnitCounts`. Every engine that waits holds a `UnitWaiter`, which it asks before each unit. An engine that reads by
walks holds a `UnitGate` around it, which lets the walks begin unit by unit.
"""

from amaranth import Cat, Module, Shape, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.ports import Permit
from cnna.spec.machine import width
from cnna.spec.regmap import COUNT_BITS, COUNTED, command_fields

UNIT_BITS = width("vector", "blocks")  # of a unit's number within its command
WAIT_CLOCKS = 3  # from the clock of `UnitWaiter.check` to the first in which `clear` can be set

COUNTS = data.ArrayLayout(unsigned(COUNT_BITS), len(COUNTED))  # finished units, in the order of COUNTED


def waits_layout() -> data.StructLayout:
    """The wait_* members of a command, which are the same for every engine that waits."""
    fields = command_fields("conv")
    return data.StructLayout({name: Shape(field.bits, field.signed) for name, field in fields.items() if name.startswith("wait_")})


def waits_of(command: data.View) -> data.View:
    """A command's wait_* members, to connect to `UnitWaiter.waits`."""
    return data.View(waits_layout(), Cat(command[name] for name, _ in waits_layout()))


class UnitCounts(wiring.Component):
    """Counts each engine's `unit` pulses since `clear`, modulo 2^24; a pulse shows a clock later."""

    clear: In(1)
    unit: In(len(COUNTED))  # a bit an engine, in the order of COUNTED
    done: Out(COUNTS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for index in range(len(COUNTED)):
            with m.If(self.clear):
                m.d.sync += self.done[index].eq(0)
            with m.Elif(self.unit[index]):
                m.d.sync += self.done[index].eq(self.done[index] + 1)
        return m


class UnitWaiter(wiring.Component):
    """Tells when a unit may begin.

    `check` takes `waits` and `unit`. `clear` falls in the next clock; it rises when every enabled wait is met, WAIT_CLOCKS after
    `check` at the soonest. It stays set until the next `check`, since counts only grow.
    """

    waits: In(waits_layout())
    unit: In(UNIT_BITS)
    check: In(1)
    done: In(COUNTS)
    clear: Out(1)
    blocked: Out(len(COUNTED))  # while not clear: the engines waited for, a bit each

    def elaborate(self, platform: object) -> Module:
        m = Module()
        started = Signal()  # `check` a clock ago, or the unit still waits
        compared = Signal()  # the same two clocks ago
        enabled = Signal(len(COUNTED))
        late = Signal(len(COUNTED))
        for index, engine in enumerate(COUNTED):
            count, step, enable = (self.waits[f"wait_{engine}_{part}"] for part in ("count", "step", "enable"))
            target = Signal(COUNT_BITS)
            left = Signal(signed(COUNT_BITS))
            with m.If(self.check):
                m.d.sync += [target.eq(count + (self.unit & step.replicate(UNIT_BITS))), enabled[index].eq(enable)]
            m.d.comb += left.eq(self.done[index] - target)
            m.d.sync += late[index].eq(enabled[index] & left[-1])
        m.d.sync += [started.eq(self.check), compared.eq(started | (compared & ~self.check))]
        with m.If(self.check | started):
            m.d.sync += [self.clear.eq(0), self.blocked.eq(0)]
        with m.Elif(compared & ~self.clear):
            m.d.sync += [self.clear.eq(~late.any()), self.blocked.eq(late)]
        return m


def gate_layout(readers: int) -> data.StructLayout:
    """`walks`: how many units of the walks to permit. `readers`: which readers take part, a bit each."""
    return data.StructLayout({"waits": waits_layout(), "walks": unsigned(UNIT_BITS), "readers": unsigned(readers)})


class UnitGate(wiring.Component):
    """Permits `readers` fetches to begin their walks' units, one by one, as the WAIT registers of the engine's command say.

    It runs ahead of the engine: while `fetch` reads one unit, the next one is already checked, so a wait that is met costs nothing.
    `span` units of a walk make one unit that other engines count. `blocked` names the engines that it waits for, a bit each.
    `given` pulses once for each walk unit, when every reader has its permit.
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
        m.submodules.waiter = waiter = UnitWaiter()
        command = Signal(gate_layout(self.readers))
        unit = Signal(UNIT_BITS)
        inner = Signal(range(max(self.span, 2)))
        owed = Signal(self.readers)
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
