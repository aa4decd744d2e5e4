"""The accelerator of variant `pl`, which works on the PL's own DDR4. A `BoardDevice` with another memory, reached by streams.

`mover` moves the bytes, and `spec.ddr` plans the DDR4. Every process plans the whole DDR4 as its own. It keeps a copy of what it
stored, and stores it again if another process has used the accelerator or loaded the image meanwhile. So a killed process leaves
nothing behind.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.host.board.board_device import Allocate, BoardBuffer, BoardDevice, as_bytes
from cnna.host.board.mover import Mover
from cnna.spec.config import BEAT_BYTES
from cnna.spec.ddr import PagePlan
from cnna.spec.errors import ArtifactError
from cnna.spec.regmap import offset


class StreamDevice(BoardDevice):
    """A `BoardDevice` for variant `pl`. ArtifactError: as of BoardDevice, or the accelerator has no streams.

    open_dma: resets the overlay's AXI DMA and returns pynq's driver for it, as `mover` needs it.
    """

    def __init__(
        self,
        mmio: Any,
        pynq_device: Any,
        allocate: Allocate,
        open_dma: Callable[[], Any],
        parameters: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(mmio, pynq_device, allocate, parameters)
        self.mover, self._plan = Mover(self, open_dma), PagePlan()
        self._planning = threading.RLock()  # the garbage collector may free a model in the middle of another call
        self._kept: dict[int, NDArray[np.uint8]] = {}  # by address, the bytes stored in an allocation
        self._stale = True  # whether the DDR4 may hold another process's bytes

    def allocate(self, size_bytes: int) -> int:
        """The address of newly allocated bytes of the PL's DDR4. RunError: there are none left; the message says what is taken."""
        with self._planning:
            address = self._plan.allocate(size_bytes)
            self.buffers[address] = BoardBuffer(None, address, size_bytes)
        return address

    def free(self, address: int) -> None:
        """Frees memory that `allocate` returned; with the last of it, also the buffers of the host."""
        with self._planning:
            self._kept.pop(address, None)
            self._plan.free(address)
            del self.buffers[address]
            if not self.buffers:
                self.mover.release()

    def store(self, address: int, data: bytes | np.ndarray) -> None:
        """Sends bytes into an allocation. Other bytes in the same beats keep their values."""
        raw = as_bytes(data)
        allocation = self.within(address, raw.size)
        kept = self._kept.setdefault(allocation.address, np.zeros(_whole(allocation.size), np.uint8))
        start = address - allocation.address
        end = start + raw.size
        low, high = start // BEAT_BYTES * BEAT_BYTES, _whole(end)
        if low < start or end < min(high, allocation.size):  # the bytes beside it may be the accelerator's
            kept[low:high] = self.mover.receive(allocation.address + low, high - low)
        kept[start:end] = raw
        self.mover.send(allocation.address + low, kept[low:high])

    def load(self, address: int, size_bytes: int) -> bytes:
        """Fetches bytes of an allocation."""
        self.within(address, size_bytes)
        low = address // BEAT_BYTES * BEAT_BYTES
        return self.mover.receive(low, _whole(address + size_bytes) - low)[address - low :][:size_bytes].tobytes()

    def turn_taken(self, passed: bool) -> None:
        """Called when a turn begins. Restores what others may have overwritten, or lost by loading the image."""
        super().turn_taken(passed)
        self._stale = self._stale or passed or self.read(offset("STREAM_IN_BYTES")) != self.mover.sent_bytes
        if self._stale:
            self.mover.forget()
            for address, kept in self._kept.copy().items():  # other threads may close models
                self.mover.send(address, kept)
            self._stale = False

    def doubt(self) -> None:
        """As of BoardDevice."""
        self._stale = True

    def _remedy(self) -> str:
        return (
            "copies to the PL's DDR4 go through it, but models do not occupy it: end other programs that hold contiguous "
            "memory, or give Linux more CMA (docs/board.md)"
        )

    def _check_streams(self) -> None:
        if not self.config.streams:
            raise ArtifactError(
                "the overlay's .hwh has an AXI DMA for variant pl, but the accelerator on the board has no stream ports: "
                "put the .bit and .hwh of one build side by side, and remove an older /lib/firmware/cnna.bin"
            )


def _whole(size_bytes: int) -> int:
    """The size rounded up to whole beats."""
    return -(-size_bytes // BEAT_BYTES) * BEAT_BYTES
