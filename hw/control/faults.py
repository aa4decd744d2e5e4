"""Stops the accelerator on the first error and records its cause; counts the program's writes; contains watchdog and run limit.

Once `error` is set, `control.py` halts the masters and the sequencer, `writes.py` ignores further writes, and the engines run
dry. A soft reset clears the error.
"""

from amaranth import Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.control.writes import Refusal
from cnna.spec.regmap import BOUNDED, ERRORS, REGISTERS


class BadResponse(data.Struct):
    """An AXI4 response that is an error."""

    valid: 1
    response: 2


class Faults(wiring.Component):
    """The first error wins. Among several in one clock, the order is: illegal write, access outside a segment, read response,
    write response, watchdog, run limit; among ports the lowest wins.

    Errors count only while a program is `running`. `progress` pulses whenever anything in the accelerator moves.
    """

    def __init__(self, ports: int) -> None:
        self.ports = ports
        super().__init__(
            {
                "running": In(1),
                "clear": In(1),  # a program begins
                "refused": In(1),
                "fault": In(Refusal),
                "reads": In(data.ArrayLayout(BadResponse, ports)),
                "writes": In(data.ArrayLayout(BadResponse, ports)),
                "progress": In(1),
                "outside": In(len(BOUNDED)),  # an engine is about to access memory outside of its segment
                "watchdog": In(32),  # clocks; 0: never
                "run_limit": In(32),  # clocks; 0: none
                "written": In(1),  # a program write has acted
                "error": Out(1),
                "cause": Out(8),
                "port": Out(8),
                "response": Out(2),
                "offset": Out(16),
                "pc": Out(32),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        late, long = self._watch(m), self._limit(m)
        with m.If(self.clear):
            m.d.sync += self.pc.eq(0)
        with m.Elif(self.written):
            m.d.sync += self.pc.eq(self.pc + 1)
        with m.If(self.running & ~self.error):
            with m.If(long):
                m.d.sync += [self.error.eq(1), self.cause.eq(ERRORS.index("run_limit"))]
            with m.If(late):
                m.d.sync += [self.error.eq(1), self.cause.eq(ERRORS.index("watchdog"))]
            for name, answers in (("write_response", self.writes), ("read_response", self.reads)):
                for port in reversed(range(self.ports)):
                    with m.If(answers[port].valid):
                        m.d.sync += [self.error.eq(1), self.cause.eq(ERRORS.index(name))]
                        m.d.sync += [self.port.eq(port), self.response.eq(answers[port].response)]
            for number, engine in reversed(list(enumerate(BOUNDED))):
                with m.If(self.outside[number]):
                    m.d.sync += [self.error.eq(1), self.cause.eq(ERRORS.index("outside_segment"))]
                    m.d.sync += [self.offset.eq(REGISTERS[f"{engine.upper()}_SEG"].offset)]
                    m.d.sync += [self.port.eq(0), self.response.eq(0)]
            with m.If(self.refused):
                m.d.sync += [self.error.eq(1), self.cause.eq(self.fault.cause), self.offset.eq(self.fault.offset)]
                m.d.sync += [self.port.eq(0), self.response.eq(0)]
        return m

    def _watch(self, m: Module) -> Signal:
        """Counts clocks without progress down from `watchdog`. Returns whether none is left."""
        left = Signal(32)
        late = Signal()
        alive = Signal(init=1)  # starts at 1, or a reset would look like a long silence
        m.d.sync += [alive.eq(self.progress | ~self.running | (self.watchdog == 0)), late.eq(~alive & (left == 0))]
        with m.If(alive):
            m.d.sync += left.eq(self.watchdog)
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        return late

    def _limit(self, m: Module) -> Signal:
        """Counts the program's clocks down from `run_limit`. Returns whether none is left, from the clock after the last one on.

        The count goes on between programs. It counts only for a running one, so that the next is not stopped as it begins.
        """
        left = Signal(32)
        limited = Signal()
        long = Signal()
        with m.If(self.clear):
            m.d.sync += [left.eq(self.run_limit), limited.eq(self.run_limit != 0)]
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        m.d.sync += long.eq(self.running & limited & (left == 0) & ~self.clear)
        return long


def fault_words(faults: Faults) -> dict[str, Signal]:
    """The words of the registers that `Faults` keeps."""
    return {
        "ERROR": Cat(faults.cause, faults.port, faults.response),
        "ERROR_INFO": faults.offset,
        "PC": faults.pc,
    }
