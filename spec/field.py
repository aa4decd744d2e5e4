"""One field of a register: what `regmap` lists and every reader of the map (RTL, driver, emulator, tables) sees."""

from typing import NamedTuple


class Field(NamedTuple):
    """Bits of a 32-bit register, from the bit after the field before it.

    access: "ro" (hardware sets it), "rw", "w1c" (write 1 clears), "pulse" (write 1 acts, reads 0). `low` and `high` are
    the legal values of a "rw" field, both included (None: all that fit); a write outside stops the accelerator.
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
