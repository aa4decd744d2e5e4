"""The PL's own DDR4 of a ZCU102, and who has which bytes of it: neither the kernel nor pynq knows of it, so the driver plans it."""

from collections.abc import Iterable

from cnna.spec.errors import RunError

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


class Plan:
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
