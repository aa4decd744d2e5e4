"""A block of the core with a copy of its own of the core's reset: one net for all would lead through the whole chip.

All copies are registers of the same value, so every block leaves the reset in the same clock; `attributes.py` keeps them apart.
"""

from amaranth import ClockDomain, DomainRenamer, Signal
from amaranth.hdl import Elaboratable, Fragment
from amaranth.lib import wiring

from cnna.hw.base.attributes import COPY


def own_reset(block: wiring.Component, clock: Signal, reset: Signal) -> Elaboratable:
    """`block`, whose domain `sync` is on `clock` and reset a clock after `reset`, by a register in domain `reset`."""
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
