"""The DDR that an accelerator works on: its speed, and the allocation of the PL's own memory.

Clocks are predicted for a `DdrSpeed`. The compiler plans with PLANNED, whatever the board; `spec.boards.ddr_of` is the DDR of a
configuration's board, for which clocks are predicted and simulated.
"""

from collections.abc import Iterable
from typing import NamedTuple

from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.errors import RunError


class DdrSpeed(NamedTuple):
    """bytes_per_cycle: reads and writes of all AXI ports together. latency_cycles: from a read address to its first beat."""

    bytes_per_cycle: int = 48
    latency_cycles: int = 120

    def times_slower(self, other: "DdrSpeed", config: Config) -> float:
        """An upper bound: a run with this DDR takes at most so many times the clocks that it takes with the `other`; at least 1.

        Transfers take longer by the ratio of the rates, as far as the ports of `config` can use them (a beat a clock each). Answers
        take longer by the ratio of the latencies. The engines themselves take no longer.
        """
        most = BEAT_BYTES * config.ports
        rate = min(other.bytes_per_cycle, most) / min(self.bytes_per_cycle, most)
        return max(1.0, rate, self.latency_cycles / other.latency_cycles)

    def __str__(self) -> str:
        return f"a DDR of {self.bytes_per_cycle} bytes a clock that answers after {self.latency_cycles} clocks"

    def entry(self) -> dict[str, int]:
        """The entry `ddr` of a manifest, and of the figures of runs and reports."""
        return self._asdict()


PLANNED = DdrSpeed()  # the PS's DDR4 of a ZCU102
PL = DdrSpeed(bytes_per_cycle=15)  # the PL's: 16 bit wide, at 300 MHz


class Road(NamedTuple):
    """How the simulated RTL reaches its DDR; docs/speed.md, "The road to DDR".

    number: as the simulation's setting `road`. planned: by the DDR's million transfers a second, what the compiler plans with: 75 %
    of the peak, in bytes a clock of 300 MHz; the first is the default. least: bytes a clock that every program gets. streams: by
    the same, what long streams of reads on four ports get where the latency is short (measured on the model). under_way: bytes that
    a port may have under way; 0: no bound.
    """

    number: int
    planned: dict[int, int]
    least: int
    streams: dict[int, int]
    under_way: int = 0

    def speed(self, mts: int, latency: int, ports: int) -> DdrSpeed:
        """The plain DDR that is about as quick for an accelerator with so many ports: what the predictor takes this road for.

        Latency grows with load. So near the point where the DDR and the bytes under way allow the same, neither is reached.
        """
        if not self.under_way:
            return DdrSpeed(self.streams[mts], latency)
        allowed = ports * self.under_way / (latency + BURST_CLOCKS)
        return DdrSpeed(round((self.streams[mts] ** -SHARPNESS + allowed**-SHARPNESS) ** (-1 / SHARPNESS)), latency)


BURST_CLOCKS = 15  # from a burst's first beat to its last: its bytes stay under way
SHARPNESS = 6  # of the bend between the two bounds, fitted to streams on the model
ZCU102_PS = Road(1, {2400: PLANNED.bytes_per_cycle, 2133: 43}, 10, {2400: 60, 2133: 54}, 2048)
ROADS = {
    "plain": Road(0, {0: PLANNED.bytes_per_cycle}, 1, {0: PLANNED.bytes_per_cycle}),
    "zcu102-ps": ZCU102_PS,
    "zcu102-ps-rev1.1": ZCU102_PS._replace(number=3),  # other address bits: `sim/rtl/ddr_parts.h`
    "zcu102-pl": Road(2, {2666: PL.bytes_per_cycle}, 4, {2666: 14}),
}

PL_DDR_BASE, PL_DDR_BYTES = 0x4_0000_0000, 512 << 20  # as the accelerator sees it, in block designs of variant `pl`
PAGE_BYTES = 4096


def first_fit(taken: Iterable[tuple[int, int]], low: int, high: int, size: int) -> int | None:
    """The lowest address at which `size` bytes, up to `high`, overlap none of the ranges (begin, end); None: there is no gap."""
    address = low
    for begin, end in sorted(taken):
        if begin - address >= size:
            return address
        address = end
    return address if address + size <= high else None


class PagePlan:
    """Allocates whole pages in base..base+size-1, at the lowest address that fits."""

    def __init__(self, base: int = PL_DDR_BASE, size: int = PL_DDR_BYTES) -> None:
        self.base, self.size = base, size
        self._taken: dict[int, int] = {}  # begin: end

    def allocate(self, size: int) -> int:
        """The address of fresh bytes. RunError: no gap is large enough; the message says what is taken."""
        whole = -(-max(size, 1) // PAGE_BYTES) * PAGE_BYTES
        address = first_fit(self._taken.items(), self.base, self.base + self.size, whole)
        if address is None:
            raise RunError(
                f"the PL's DDR4 has no {size:,} contiguous bytes left: {self.used_bytes:,} of its {self.size:,} are taken by "
                f"{len(self._taken)} segments of this process's models: close one, or compile for a smaller batch"
            )
        self._taken[address] = address + whole
        return address

    def free(self, address: int) -> None:
        """Gives back what `allocate` gave."""
        self._taken.pop(address, None)  # Ctrl-C may come before the caller notes it; then it frees twice

    @property
    def used_bytes(self) -> int:
        """Allocated bytes, in whole pages."""
        return sum(end - begin for begin, end in self._taken.items())
