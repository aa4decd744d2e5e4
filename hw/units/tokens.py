"""How engines wait for each other: counts of finished units, and the check of a command's WAIT registers against them.

`top` has one `Counts`; every engine that waits holds a `Waiter`, which it asks before each unit.
"""

from amaranth import Cat, Module, Shape, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cnna.spec.regmap import COUNT_BITS, COUNTED, command_fields

UNIT_BITS = 16  # of a unit's number within its command
WAIT_CLOCKS = 3  # from the clock of `Waiter.check` to the first in which `clear` can be set

COUNTS = data.ArrayLayout(unsigned(COUNT_BITS), len(COUNTED))  # finished units, in the order of COUNTED


def waits_layout() -> data.StructLayout:
    """The wait_* members of a command: the same ones for every engine that waits."""
    fields = command_fields("conv")
    return data.StructLayout({name: Shape(field.bits, field.signed) for name, field in fields.items() if name.startswith("wait_")})


def waits_of(command: data.View) -> data.View:
    """A command's wait_* members, to connect to `Waiter.waits`."""
    return data.View(waits_layout(), Cat(command[name] for name, _ in waits_layout()))


class Counts(wiring.Component):
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


class Waiter(wiring.Component):
    """Says when a unit may begin.

    `check` takes `waits` and `unit`; `clear` falls in the next clock and rises, WAIT_CLOCKS later at the soonest, when
    every enabled wait is met. It stays set until the next `check`, as counts only grow.
    """

    waits: In(waits_layout())
    unit: In(UNIT_BITS)
    check: In(1)
    done: In(COUNTS)
    clear: Out(1)
    blocked: Out(len(COUNTED))  # while not clear: the engines waited for, a bit each

    def elaborate(self, platform: object) -> Module:
        m = Module()
        started, compared = Signal(), Signal()  # `check` one and two clocks ago, or the unit still waits
        enabled, late = Signal(len(COUNTED)), Signal(len(COUNTED))
        for index, engine in enumerate(COUNTED):
            count, step, enable = (self.waits[f"wait_{engine}_{part}"] for part in ("count", "step", "enable"))
            target, left = Signal(COUNT_BITS), Signal(signed(COUNT_BITS))
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
