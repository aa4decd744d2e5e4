"""Registers that only carry a value along a pipeline.

They have no reset, so that synthesis may put them into shift register LUTs; whatever decides that a value counts
(`valid` bits) travels with `cleared=True`.
"""

from amaranth import Module, Signal, Value
from amaranth.lib import data


def delayed(
    m: Module, value: Value | data.View, clocks: int, *, cleared: bool = False, attrs: dict[str, str] | None = None
) -> Value | data.View:
    """`value` as it was `clocks` clocks ago (0: itself), same shape. `cleared`: reset sets it to 0, for valid bits.

    `attrs`: attributes of the last register.
    """
    for left in reversed(range(clocks)):
        late = Signal(value.shape(), reset_less=not cleared, attrs=None if left else attrs)
        m.d.sync += late.eq(value)
        value = late
    return value
