"""Registers and their fields: `regmap` lists them, and every reader of the map (RTL, driver, emulator, tables) sees them."""

from typing import NamedTuple


class Field(NamedTuple):
    """Some bits of a 32-bit register; they begin behind the field before.

    access: "ro" (hardware sets it), "rw", "w1c" (write 1 clears), "pulse" (write 1 acts, reads 0). `low` and `high` are the least
    and the greatest legal value of a "rw" field (None: every value that fits). A write outside them stops the accelerator.
    """

    name: str
    bits: int
    access: str
    doc: str
    reset: int = 0
    low: int | None = None
    high: int | None = None
    signed: bool = False

    @property
    def limits(self) -> tuple[int, int]:
        """Legal values, both included."""
        floor = -(1 << (self.bits - 1)) if self.signed else 0
        return (
            floor if self.low is None else self.low,
            floor + (1 << self.bits) - 1 if self.high is None else self.high,
        )


class Register(NamedTuple):
    """One 32-bit register and its offset."""

    name: str
    offset: int
    block: str
    fields: tuple[Field, ...]

    def pack(self, **values: int) -> int:
        """The register's word from field values; a field that is not given has its reset value.

        ValueError: a value is outside its field's limits; the message names register, field, value and limits.
        """
        word, bit = 0, 0
        for field in self.fields:
            value = int(values.pop(field.name, field.reset))
            low, high = field.limits
            if not low <= value <= high:
                raise ValueError(f"{self.name}.{field.name} = {value} is not within {low}..{high}")
            word |= (value & ((1 << field.bits) - 1)) << bit
            bit += field.bits
        if values:
            raise ValueError(f"{self.name} has no field {', '.join(values)}")
        return word

    def unpack(self, word: int) -> dict[str, int]:
        """Field values of a register's word."""
        values, bit = {}, 0
        for field in self.fields:
            value = (word >> bit) & ((1 << field.bits) - 1)
            if field.signed and value >> (field.bits - 1):
                value -= 1 << field.bits
            values[field.name] = value
            bit += field.bits
        return values
