"""The stream helper finds the faults for which it exists."""

import pytest
from amaranth import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .streams import run_stream


class Faulty(wiring.Component):
    """A wire with one fault."""

    i: In(stream.Signature(8))
    o: Out(stream.Signature(8))

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault

    def elaborate(self, platform: object) -> Module:
        m = Module()
        clock = Signal(8)
        m.d.sync += clock.eq(clock + 1)
        m.d.comb += [self.o.payload.eq(self.i.payload), self.o.valid.eq(self.i.valid), self.i.ready.eq(self.o.ready)]
        if self.fault == "changes":
            m.d.comb += self.o.payload.eq(clock)
        if self.fault == "withdraws":
            m.d.comb += self.o.valid.eq(self.i.valid & clock[0])
        if self.fault == "waits for ready":
            m.d.comb += self.o.valid.eq(self.i.valid & self.o.ready)
        return m


@pytest.mark.parametrize(
    ("fault", "pace", "message"),
    [
        ("changes", "blocked", "did not hold still"),
        ("withdraws", "blocked", "did not hold still"),
        ("waits for ready", "shy", "0 of 9 answers"),
    ],
)
def test_fault_is_found(fault: str, pace: str, message: str) -> None:
    """A stream test would pass a component that breaks the stream's rules."""
    with pytest.raises(AssertionError, match=message):
        run_stream(Faulty(fault), range(9), pace)


def test_wire_is_fine() -> None:
    """A stream test would blame a component that keeps the rules."""
    assert run_stream(Faulty("none"), range(9), "ragged")[0] == list(range(9))
