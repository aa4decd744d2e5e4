"""An `axi_dma:7.1` without scatter-gather, as stock `pynq.lib.dma` drives it: DDR to a stream (MM2S), and a stream to DDR (S2MM).

Registers and their bits are those of Xilinx PG021. If the stream is ready, a transfer is done as soon as it is started. Otherwise
it waits, and each access to a register tries to continue it. The other ends of the streams are a `Sink` and a `Source`.
"""

import threading
from abc import ABC, abstractmethod
from collections import deque
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cnna.sim.board.dram import Dram
from cnna.sim.board.refused import RefusedError
from cnna.spec.machine import BEAT_BITS, BUS_BITS

LENGTH_BITS = 26
CR, SR, ADDRESS, ADDRESS_HIGH, LENGTH = 0x00, 0x04, 0x18, 0x1C, 0x28  # a channel's registers; those of S2MM begin at S2MM
S2MM = 0x30
RUN, RESET = 1 << 0, 1 << 2  # bits of CR
HALTED, IDLE = 1 << 0, 1 << 1  # states in SR
INTERNAL, SLAVE, DECODE = 1 << 4, 1 << 5, 1 << 6  # errors in SR
DONE, FAILED = 1 << 12, 1 << 14  # interrupts in SR
REGISTERS = (  # for the handoff: name, offset, description
    ("MM2S_DMACR", CR, "MM2S control"),
    ("MM2S_DMASR", SR, "MM2S status"),
    ("MM2S_SA", ADDRESS, "MM2S source address"),
    ("MM2S_SA_MSB", ADDRESS_HIGH, "MM2S source address, high half"),
    ("MM2S_LENGTH", LENGTH, "MM2S bytes; begins a transfer"),
    ("S2MM_DMACR", S2MM + CR, "S2MM control"),
    ("S2MM_DMASR", S2MM + SR, "S2MM status"),
    ("S2MM_DA", S2MM + ADDRESS, "S2MM destination address"),
    ("S2MM_DA_MSB", S2MM + ADDRESS_HIGH, "S2MM destination address, high half"),
    ("S2MM_LENGTH", S2MM + LENGTH, "S2MM bytes of room, then of the packet; begins a transfer"),
)
PARAMETERS = {  # parameters of the IP, which the stock driver reads
    "c_include_sg": "0",
    "c_micro_dma": "0",
    "c_sg_length_width": str(LENGTH_BITS),
    "c_include_mm2s": "1",
    "c_include_s2mm": "1",
    "c_include_mm2s_dre": "0",
    "c_include_s2mm_dre": "0",
    "c_m_axi_mm2s_data_width": str(BEAT_BITS),
    "c_m_axi_s2mm_data_width": str(BEAT_BITS),
    "c_addr_width": str(BUS_BITS),
}


class Sink(Protocol):
    """Takes packets of bytes."""

    def put(self, data: bytes) -> bool:
        """Takes one packet. False: not all of it has been taken yet, so the caller must put it again."""

    def drop_put(self) -> None:
        """Tells that a packet that was not taken will not be put again."""


class Source(Protocol):
    """Gives packets of bytes."""

    def get(self) -> bytes | None:
        """Gives one packet; None: there is none yet."""

    def drop_got(self) -> None:
        """Tells that nobody waits for a packet any more."""


class Loop:
    """A FIFO of packets."""

    def __init__(self, packets: int = 4) -> None:
        self.packets, self._held = packets, deque[bytes]()

    def put(self, data: bytes) -> bool:
        """Takes a packet if there is room."""
        if len(self._held) == self.packets:
            return False
        self._held.append(data)
        return True

    def get(self) -> bytes | None:
        """Gives the oldest packet."""
        return self._held.popleft() if self._held else None

    def drop_put(self) -> None:
        """Does nothing, because it takes whole packets or none."""

    def drop_got(self) -> None:
        """Does nothing, because it keeps its packets."""


class Channel(ABC):
    """One direction: its registers, and the transfer that waits. `attempt` tries to move the transfer."""

    def __init__(self, dram: Dram) -> None:
        self.dram = dram
        self.reset()

    def reset(self) -> None:
        """Resets the channel to its state after power-up."""
        self.control = 0
        self.status = HALTED
        self.address = 0
        self.length = 0
        self.waits = False

    def read(self, offset: int) -> int:
        """Reads a register. First continues the transfer if it can."""
        self.go_on()
        words = {CR: self.control, SR: self.status, ADDRESS: self.address & 0xFFFF_FFFF, ADDRESS_HIGH: self.address >> 32}
        return self.length if offset == LENGTH else words.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        """Writes a register."""
        if offset == CR:
            self._control(value)
        elif offset == SR:
            self.status &= ~(value & (DONE | FAILED))
        elif offset == ADDRESS:
            self.address = self.address >> 32 << 32 | value
        elif offset == ADDRESS_HIGH:
            self.address = value << 32 | self.address & 0xFFFF_FFFF
        elif offset == LENGTH and not self.status & HALTED:
            self.length = value & ((1 << LENGTH_BITS) - 1)
            self.status &= ~IDLE
            self.waits = True
            self.go_on()

    def go_on(self) -> None:
        """Moves the transfer that waits, or stops with an error."""
        if not self.waits:
            return
        try:
            view = self.dram.view(self.address, self.length)
        except RefusedError:
            return self.fail(DECODE)
        if not self.length:
            return self.fail(INTERNAL)
        moved = self.attempt(view)
        if moved is None:
            return None
        if moved > self.length:
            return self.fail(INTERNAL)
        self.length, self.waits = moved, False
        self.status |= IDLE | DONE
        return None

    def _control(self, value: int) -> None:
        if value & RESET:
            self.reset()
            return
        self.control = value & ~RESET
        if not value & RUN:
            self.status, self.waits = self.status | HALTED, False
        elif not self.status & (INTERNAL | SLAVE | DECODE):  # an error stays until a reset
            self.status &= ~HALTED

    def fail(self, bit: int) -> None:
        self.waits = False
        self.control &= ~RUN
        self.status |= bit | HALTED | FAILED

    @abstractmethod
    def attempt(self, view: NDArray[np.uint8]) -> int | None:
        """Moves bytes from or to `view`. Returns the number; None while the stream is not ready."""


class Send(Channel):
    """The channel MM2S, from DDR to a stream."""

    def __init__(self, dram: Dram, sink: Sink) -> None:
        super().__init__(dram)
        self.sink = sink

    def attempt(self, view: NDArray[np.uint8]) -> int | None:
        return len(view) if self.sink.put(view.tobytes()) else None


class Receive(Channel):
    """The channel S2MM, from a stream to DDR. LENGTH then reads as the number of bytes that have come."""

    def __init__(self, dram: Dram, source: Source) -> None:
        super().__init__(dram)
        self.source = source

    def attempt(self, view: NDArray[np.uint8]) -> int | None:
        data = self.source.get()
        if data is not None and len(data) <= len(view):
            view[: len(data)] = np.frombuffer(data, np.uint8)
        return None if data is None else len(data)


class Dma:
    """Both channels as a `fabric.Slave`. A reset of one resets both, as in the IP."""

    def __init__(self, dram: Dram, sink: Sink, source: Source) -> None:
        self.send, self.receive = Send(dram, sink), Receive(dram, source)
        self._lock = threading.Lock()  # several threads serve the clients

    def read(self, offset: int) -> int:
        """Reads a register of either channel."""
        with self._lock:
            self.send.go_on()  # a client that polls one channel may wait for the other
            self.receive.go_on()
            return self.receive.read(offset - S2MM) if offset >= S2MM else self.send.read(offset)

    def reset(self) -> None:
        """Resets both channels to their state after power-up."""
        self.send.reset()
        self.send.sink.drop_put()
        self.receive.reset()
        self.receive.source.drop_got()

    def write(self, offset: int, value: int) -> None:
        """Writes a register of either channel."""
        with self._lock:
            if offset in (CR, S2MM + CR) and value & RESET:
                self.reset()
            elif offset >= S2MM:
                self.receive.write(offset - S2MM, value)
            else:
                self.send.write(offset, value)
