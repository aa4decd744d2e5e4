"""Registers that only carry a value along a pipeline.

They have no reset, so that synthesis may put them into shift register LUTs; whatever decides that a value counts
(`valid` bits) travels with `cleared=True`.
"""

from amaranth import Module, Signal, Value
from amaranth.lib import data


def delayed(m: Module, value: Value | data.View, clocks: int, *, cleared: bool = False) -> Value | data.View:
    """`value` as it was `clocks` clocks ago (0: itself), same shape. `cleared`: reset sets it to 0, for valid bits."""
    for _ in range(clocks):
        late = Signal(value.shape(), reset_less=not cleared)
        m.d.sync += late.eq(value)
        value = late
    return value
