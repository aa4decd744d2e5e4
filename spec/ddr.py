"""The DDR that an accelerator works on: how quick it is, and which bytes of the PL's own memory are whose.

Clocks are predicted for `DdrSpeed`: PLANNED is what the compiler plans with, `ddr_of` what is behind each variant of the board. The
compiler, the simulation and boards read both.
"""

from collections.abc import Iterable
from typing import NamedTuple

from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.errors import RunError


class DdrSpeed(NamedTuple):
    """bytes_per_cycle: of all AXI ports together, reads and writes. latency_cycles: from a read address to its first beat."""

    bytes_per_cycle: int = 48
    latency_cycles: int = 120

    def times_slower(self, other: "DdrSpeed", config: Config) -> float:
        """How many times longer at most a run takes with this one than with the `other`; 1 where this one is no slower.

        Bytes take longer by the rates' ratio, of which ports of `config` use no more than a beat a clock each; answers take
        longer by the latencies' ratio; the engines themselves take no longer.
        """
        most = BEAT_BYTES * config.ports
        rate = min(other.bytes_per_cycle, most) / min(self.bytes_per_cycle, most)
        return max(1.0, rate, self.latency_cycles / other.latency_cycles)

    def __str__(self) -> str:
        return f"a DDR of {self.bytes_per_cycle} bytes a clock that answers after {self.latency_cycles} clocks"

    def entry(self) -> dict[str, int]:
        """As `ddr` in a manifest and in the figures of runs and reports."""
        return self._asdict()


PLANNED = DdrSpeed()  # the PS's DDR4 of a ZCU102
PL = DdrSpeed(bytes_per_cycle=15)  # the PL's: 16 bit wide, at 300 MHz


def ddr_of(config: Config) -> DdrSpeed:
    """What an accelerator of this configuration works on."""
    return PL if config.streams else PLANNED


PL_DDR_BASE, PL_DDR_BYTES = 0x4_0000_0000, 512 << 20  # as the accelerator sees it, in block designs of variant `pl`
PAGE_BYTES = 4096


def first_fit(taken: Iterable[tuple[int, int]], low: int, high: int, size: int) -> int | None:
    """The lowest address in low..high-size of `size` bytes that overlap none of the pairs (begin, end); None: there is no gap."""
    address = low
    for begin, end in sorted(taken):
        if begin - address >= size:
            return address
        address = end
    return address if address + size <= high else None


class PagePlan:
    """Allocations of whole pages in base..base+size-1, the lowest that fit first."""

    def __init__(self, base: int = PL_DDR_BASE, size: int = PL_DDR_BYTES) -> None:
        self.base, self.size = base, size
        self._taken: dict[int, int] = {}  # begin: end

    def allocate(self, size: int) -> int:
        """Address of fresh bytes. RunError: no gap is large enough; says what is taken."""
        whole = -(-max(size, 1) // PAGE_BYTES) * PAGE_BYTES
        address = first_fit(self._taken.items(), self.base, self.base + self.size, whole)
        if address is None:
            raise RunError(
                f"the PL's DDR4 has no {size:,} bytes in a row left: {self.used_bytes:,} of its {self.size:,} are taken by "
                f"{len(self._taken)} segments of this process's models: close one, or compile for a smaller batch"
            )
        self._taken[address] = address + whole
        return address

    def free(self, address: int) -> None:
        """Gives back what `allocate` gave."""
        self._taken.pop(address, None)  # Ctrl-C may come between this and what the caller notes

    @property
    def used_bytes(self) -> int:
        """Bytes allocated, in pages."""
        return sum(end - begin for begin, end in self._taken.items())
