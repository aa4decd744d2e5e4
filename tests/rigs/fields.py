"""Payloads as plain integers, for benches that look at one in each clock: Amaranth's views cost more there than the simulation."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace

from amaranth.hdl import Shape
from amaranth.lib import data


class Fields:
    """Reads and writes the bits of a struct whose members are integers, or arrays of integers."""

    def __init__(self, layout: data.StructLayout) -> None:
        self._members: dict[str, tuple[int, Shape, int | None]] = {}  # offset, shape of an integer, and how many an array has
        for name, field in layout:
            array = isinstance(field.shape, data.ArrayLayout)
            item = Shape.cast(field.shape.elem_shape if array else field.shape)
            self._members[str(name)] = field.offset, item, field.shape.length if array else None

    def read(self, bits: int) -> SimpleNamespace:
        """The members by name: integers, and lists of integers."""
        found = SimpleNamespace()
        for name, (offset, item, count) in self._members.items():
            part, width = bits >> offset, item.width
            values = [part >> width * number & (1 << width) - 1 for number in range(1 if count is None else count)]
            if item.signed:
                values = [value - (value >> width - 1 << width) for value in values]
            setattr(found, name, values[0] if count is None else values)
        return found

    def pack(self, values: Mapping[str, int | Sequence[int]]) -> int:
        """The bits of these members; those that are not given are 0."""
        bits = 0
        for name, value in values.items():
            offset, item, _ = self._members[name]
            for number, one in enumerate([value] if isinstance(value, int) else value):
                bits |= (one & (1 << item.width) - 1) << offset + number * item.width
        return bits
