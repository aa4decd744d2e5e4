"""Moves bytes between the host and the PL's DDR4, through an AXI DMA (with stock pynq's driver) and the accelerator's streams.

Each piece is a packet. The accelerator gets its address in the PL's DDR4 (STREAM_IN or STREAM_OUT), and the DMA gets its address in
the host's contiguous memory. `stream_device` is the device that uses this. PYNQ.remote always moves a whole buffer, so there is one
buffer for each size.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cnna.host.board.run_wait import pause_seconds
from cnna.host.board.turn import Turns
from cnna.spec.config import BEAT_BYTES
from cnna.spec.device import state_of
from cnna.spec.errors import RunError, TimedOutError, TurnLostError
from cnna.spec.machine import RESPONSES
from cnna.spec.progress import Played
from cnna.spec.regmap import REGISTERS, STREAM_ERRORS, offset

PIECE_BYTES = 256 << 10  # the longest packet
KEPT_BUFFERS = 8
SETTLE_SECONDS = 0.2  # how long a failed copy may take to let its packet end, before other faults are considered
RESET, RESET_SECONDS = 1 << 2, 1.0  # bit of the DMA's control register, and how long a reset may take
IDLE, FAILED = 1 << 1, 0x70  # bits of a channel's status register
DMA_ADDRESS = 0x14, 0x18  # address registers of a channel, relative to its status register
FAILURES = {
    0x10: "internal error (DMAIntErr): a length of 0, or a packet longer than its room",
    0x20: "slave error (DMASlvErr): the host's memory refused an access",
    0x40: "decode error (DMADecErr): no memory at the buffer's address",
}


class Direction(NamedTuple):
    """One direction of transfer."""

    copy: str  # the prefix of the accelerator's registers
    channel: str  # the channel of pynq's DMA
    status: int  # offset of the DMA channel's status register
    words: str


IN = Direction("STREAM_IN", "sendchannel", 0x04, "MM2S, host to PL DDR4")
OUT = Direction("STREAM_OUT", "recvchannel", 0x34, "S2MM, PL DDR4 to host")


class Registers(Protocol):
    """What a mover needs of the accelerator's device."""

    timeout_seconds: float
    playing: Played | None
    turns: Turns

    def read(self, offset: int) -> int:
        """A register."""

    def write(self, offset: int, value: int) -> None:
        """Sets a register."""

    def reset(self) -> None:
        """Does a soft reset, which ends copies."""

    def reporting_failures(self, doing: str, place: int | str) -> AbstractContextManager[None]:
        """As `BoardDevice.reporting_failures`."""

    def contiguous(self, size_bytes: int) -> Any:
        """A buffer of uint8 in the host's contiguous memory."""


class Mover:
    """Moves bytes both ways. Only the holder of the turn may use it.

    open_dma: resets the DMA and returns pynq's driver for it (`pynq.lib.dma.DMA`).
    """

    def __init__(self, device: Registers, open_dma: Callable[[], Any]) -> None:
        self.device, self._open_dma = device, open_dma
        self.sent_bytes = 0  # length of the last packet to the DDR4; STREAM_IN_BYTES holds it until the image is loaded again
        self.dma: Any = None
        self.buffers: dict[int, Any] = {}  # by size; the last used one is at the end

    def send(self, address: int, data: NDArray[np.uint8]) -> None:
        """Writes whole beats to an address that is a multiple of 16.

        RunError: the DMA, a copy or the bus failed; the message says which, and how.
        """
        for start in range(0, data.size, PIECE_BYTES):
            piece = data[start : start + PIECE_BYTES]
            buffer = self._buffer(piece.size)
            buffer[:] = piece
            self._packet(IN, address + start, buffer)
            self.sent_bytes = piece.size

    def receive(self, address: int, size_bytes: int) -> NDArray[np.uint8]:
        """Reads whole beats from an address that is a multiple of 16. RunError: as `send`."""
        whole = np.empty(size_bytes, np.uint8)
        for start in range(0, size_bytes, PIECE_BYTES):
            buffer = self._buffer(min(PIECE_BYTES, size_bytes - start))
            self._packet(OUT, address + start, buffer)
            whole[start : start + buffer.size] = buffer
        return whole

    def forget(self) -> None:
        """Lets the next packet reset the DMA and the copies first: another process may have used them, or stopped half way."""
        self.dma = None

    def release(self) -> None:
        """Frees the buffers. They are allocated again when they are needed."""
        while self.buffers:
            self._drop(next(iter(self.buffers)))

    def _packet(self, way: Direction, address: int, buffer: Any) -> None:
        if self.dma is None:
            self.device.reset()
            try:
                with self.device.reporting_failures("opening", "the AXI DMA"):
                    self.dma = self._open_dma()
            except TimedOutError as stuck:
                raise TimedOutError(f"{stuck}; {state_of(self.device)}") from None
        words = {"LO": address & 0xFFFF_FFFF, "HI": address >> 32, "BYTES": buffer.nbytes, "START": 1}
        try:
            for name, word in words.items():
                self.device.write(offset(f"{way.copy}_{name}"), word)
            channel = getattr(self.dma, way.channel)
            self.device.turns.check()
            with self.device.reporting_failures("starting", f"the AXI DMA ({way.words})"):
                channel.transfer(buffer)
            self.wait(way, address, buffer.nbytes)
            with self.device.reporting_failures("ending", f"the AXI DMA ({way.words})"):
                channel.wait()  # makes the received bytes visible to the host
            if not self.device.turns.certain:
                self._check_places(way, words, int(buffer.physical_address))
        except BaseException:  # Ctrl-C too: DMA and copy must stop, because the memory may soon have another owner
            self._abandon()
            raise
        if way is OUT and channel.transferred != buffer.nbytes:
            raise RunError(f"the AXI DMA ({way.words}) got {channel.transferred:,} of {buffer.nbytes:,} bytes")

    def wait(self, way: Direction, address: int, size: int) -> None:
        """Waits until the DMA and the accelerator's copy are done."""
        began = time.monotonic()
        place = f"{size:,} bytes at {address:#x}"
        while True:
            copy = REGISTERS[f"{way.copy}_STATUS"].unpack(self.device.read(offset(f"{way.copy}_STATUS")))
            with self.device.reporting_failures("reading", f"the AXI DMA ({way.words})"):
                status = int(self.dma.read(way.status))
            if failed := [text for bit, text in FAILURES.items() if status & bit]:
                raise RunError(f"the AXI DMA ({way.words}) stopped with {' and '.join(failed)}; {place}")
            waited = time.monotonic() - began
            if copy["cause"] and (not copy["busy"] or waited > SETTLE_SECONDS):  # a failed copy still lets its packet end
                raise RunError(f"{way.copy} stopped: {_cause(copy)}; {place}")
            if copy["done"] and status & IDLE:
                return
            if waited > SETTLE_SECONDS and self._stopped():
                raise RunError(f"{place} have not moved: an error has stopped the accelerator")
            if waited > self.device.timeout_seconds:
                state = "done" if copy["done"] else "busy" if copy["busy"] else "not running"
                raise TimedOutError(
                    f"{place} have not moved within {self.device.timeout_seconds:g} s: {way.copy} is {state}, "
                    f"the AXI DMA ({way.words}) has status {status:#x}; {state_of(self.device)}"
                )
            time.sleep(pause_seconds(waited))

    def _check_places(self, way: Direction, words: dict[str, int], place: int) -> None:
        """TurnLostError: another process that had lost its turn has made a late access, and has sent the packet elsewhere."""
        found = {name: self.device.read(offset(f"{way.copy}_{name}")) for name in ("LO", "HI", "BYTES")}
        with self.device.reporting_failures("reading", f"the AXI DMA ({way.words})"):
            low, high = (int(self.dma.read(way.status + at)) for at in DMA_ADDRESS)
        if any(words[name] != word for name, word in found.items()) or high << 32 | low != place:
            raise TurnLostError(
                f"the address in {way.copy} or the AXI DMA ({way.words}) has changed: another process that had lost its turn has "
                "written there late; answers since then are void, run again"
            )

    def _stopped(self) -> bool:
        """Whether an error of a program has stopped the accelerator, and all copies with it."""
        return bool(REGISTERS["STATUS"].unpack(self.device.read(offset("STATUS")))["error"])

    def _abandon(self) -> None:
        """Stops a transfer that may still be under way. Ignores failures here, because the user must see the first one."""
        dma, self.dma = self.dma, None
        with suppress(Exception):
            self.device.turns.check()  # otherwise this could abort another process's transfer
            dma.write(0, RESET)
        self.release()

    def _buffer(self, size: int) -> Any:
        """A buffer of that size, kept from an earlier packet or newly allocated."""
        buffer = self.buffers.pop(size, None)
        if buffer is None:
            while len(self.buffers) >= KEPT_BUFFERS:
                self._drop(next(iter(self.buffers)))
            buffer = self.device.contiguous(size)
        self.buffers[size] = buffer
        return buffer

    def _drop(self, size: int) -> None:
        buffer = self.buffers.pop(size)
        with self.device.reporting_failures("freeing", f"{size:,} bytes"):
            buffer.freebuffer()


def reset_dma(mmio: Any) -> None:
    """Resets both channels of the DMA behind an MMIO object. TimedOutError: the reset does not end."""
    mmio.write(0, RESET)
    until = time.monotonic() + RESET_SECONDS
    while mmio.read(0) & RESET:
        if time.monotonic() > until:
            status = ", ".join(f"{way.words}: status {mmio.read(way.status):#x}" for way in (IN, OUT))
            raise TimedOutError(f"the AXI DMA's reset has not ended after {RESET_SECONDS:g} s: load the overlay again; {status}")


def _cause(copy: dict[str, int]) -> str:
    cause = STREAM_ERRORS[copy["cause"]] if copy["cause"] < len(STREAM_ERRORS) else f"cause {copy['cause']}"
    return f"{cause} {RESPONSES[copy['response']]}" if cause == "response" else cause


assert PIECE_BYTES % BEAT_BYTES == 0
