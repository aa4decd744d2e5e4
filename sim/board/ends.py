"""The DMA's view of the simulated RTL's stream ports: packets go to and come from the ends that the simulation has of them.

They move while the simulation's clock runs, which `backend.RtlBackend` lets it do as long as they are `busy`.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from cnna.spec.regmap import REGISTERS, offset

STARTS = (offset("STREAM_IN_START"), offset("STREAM_OUT_START"))
STATUSES = {way: offset(f"{way}_STATUS") for way in ("STREAM_IN", "STREAM_OUT")}
GRACE_SLICES = 32  # of the clock that a copy has for its last responses, or for the DMA to bring its packet, before it rests


class RtlStreams:
    """A `dma.Sink` and a `dma.Source`. `exclusive` gives the simulated device for a block, `wake` makes its clock run."""

    def __init__(self, exclusive: Callable[[], AbstractContextManager[Any]], wake: Callable[[], None]) -> None:
        self._exclusive, self._wake = exclusive, wake
        self._sending = False
        self._grace = 0

    def put(self, data: bytes) -> bool:
        """One packet, beat by beat as the accelerator takes it."""
        with self._exclusive() as device:
            if not self._sending:
                device.send(data)
                self._sending = True
                self.wake()
            self._sending = device.unsent > 0
            return not self._sending

    def get(self) -> bytes | None:
        """One packet, when it has come to its end."""
        with self._exclusive() as device:
            found: bytes | None = device.receive()
            return found

    def drop_put(self) -> None:
        """The rest of a packet."""
        with self._exclusive() as device:
            device.drop_sent()
            self._sending = False

    def drop_got(self) -> None:
        """What came, and the beginning of what was coming."""
        with self._exclusive() as device:
            device.drop_received()

    def wake(self) -> None:
        """Something may move now."""
        self._grace = GRACE_SLICES
        self._wake()

    def busy(self, device: Any) -> bool:
        """Whether the clock has anything to move: a copy that goes on, and has its packet."""
        if not self._grace:
            return False
        runs = {way: REGISTERS[f"{way}_STATUS"].unpack(device.read(at))["busy"] for way, at in STATUSES.items()}
        if not runs["STREAM_OUT"] and not (runs["STREAM_IN"] and device.unsent):
            self._grace = self._grace - 1 if runs["STREAM_IN"] else 0
        return self._grace > 0
