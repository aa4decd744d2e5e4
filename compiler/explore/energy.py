"""Energy of a frame, from counts and constants that a user gives: only as good as these, and meant to compare configurations.

The defaults are of M. Horowitz, "Computing's energy problem (and what we can do about it)", ISSCC 2014, for logic of 45 nm at
0.9 V: 0.2 pJ for a product of 8 bits and 0.1 pJ for a sum of 32; 10 pJ for 64 bits of a memory of 8 KB; 1.3 nJ, the low end, for 64
bits of DRAM. They are of full-custom logic. An FPGA takes several times as much for arithmetic, so give constants of your own where
you have measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import inf

from cnna.compiler.explore.point import Point
from cnna.spec.errors import UserError


@dataclass(frozen=True)
class Energy:
    """mac, bram, ddr: picojoules of a multiply-accumulate, of an access of 8 bytes to a block RAM, and of a byte through DDR.

    static: watts that the chip takes whatever it does; a slow design takes them for longer. UserError: one is below 0.
    """

    mac: float = 0.3
    bram: float = 10.0
    ddr: float = 162.5
    static: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if not 0 <= getattr(self, field.name) < inf:
                raise UserError(f"--energy {field.name}={getattr(self, field.name):g}: must be 0 or more")

    def joules(self, point: Point) -> float:
        """Of an image."""
        counted = self.mac * point.macs + (self.bram * point.accesses + self.ddr * point.bytes) / point.batch
        return counted * 1e-12 + self.static / point.alone


def energy_of(given: Mapping[str, float] | None) -> Energy:
    """With these constants; those that are left out are the defaults. UserError: there is no such constant."""
    names = [field.name for field in fields(Energy)]
    for name in given or {}:
        if name not in names:
            raise UserError(f"--energy {name}: there is no such constant; there are {', '.join(names)}")
    return Energy(**(given or {}))
