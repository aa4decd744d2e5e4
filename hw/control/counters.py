"""Performance counters: the registers of the counters block, counted while a program runs."""

from amaranth import Const, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.units.waits import COUNTS
from cnna.spec.regmap import COUNTED, REGISTERS, STALLS

COUNTER_NAMES = tuple(register.name for register in REGISTERS.values() if register.block == "counters")
COUNTER_WORDS = data.StructLayout(dict.fromkeys(COUNTER_NAMES, 32))


class Counter(wiring.Component):
    """One counter. It is a module by itself, so that none of its nets is wide."""

    clear: In(1)
    up: In(1)
    count: Out(32)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        with m.If(self.clear):
            m.d.sync += self.count.eq(0)
        with m.Elif(self.up):
            m.d.sync += self.count.eq(self.count + 1)
        return m


class Counters(wiring.Component):
    """All counters. Each is 32 bits wide, counts modulo 2^32 and is one clock late. `clear` zeroes them as a program begins.

    `stall` says why the array is not active, as an index into `regmap.STALLS`; it is ignored while the array is active.
    """

    def __init__(self, ports: int) -> None:
        self.ports = ports
        super().__init__(
            {
                "running": In(1),
                "clear": In(1),
                "array_active": In(1),
                "vector_active": In(1),
                "stall": In(range(len(STALLS))),
                "read_beat": In(ports),
                "write_beat": In(ports),
                "done": In(COUNTS),
                "words": Out(COUNTER_WORDS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        events = self._events()
        for name, event in events.items():
            pulse = Signal(name=f"{name.lower()}_pulse")
            m.d.sync += pulse.eq(event & self.running)
            m.submodules[name.lower()] = counter = Counter()
            m.d.comb += [counter.clear.eq(self.clear), counter.up.eq(pulse), self.words[name].eq(counter.count)]
        for index, engine in enumerate(COUNTED):
            m.d.comb += self.words[f"DONE_{engine.upper()}"].eq(self.done[index])
        return m

    def _events(self) -> dict[str, Value]:
        """The event that each counter counts. A port that the configuration lacks has no counter."""
        events: dict[str, Value] = {
            "CYCLES": Const(1, 1),
            "ARRAY_ACTIVE": self.array_active,
            "VECTOR_ACTIVE": self.vector_active,
        }
        events |= {f"STALL_{cause.upper()}": ~self.array_active & (self.stall == index) for index, cause in enumerate(STALLS)}
        for port in range(self.ports):
            events[f"READ_BEATS{port}"] = self.read_beat[port]
            events[f"WRITE_BEATS{port}"] = self.write_beat[port]
        return events
