"""The other ends of the stream ports, in the simulator's process: packets to and from `packets.cpp` by ctypes."""

import ctypes
from typing import Any


def linked() -> bool:
    """Whether the accelerator that is simulated in this process has streams."""
    return hasattr(ctypes.CDLL(None), "packets_send")


class Packets:
    """What is linked into this process where the accelerator has streams."""

    def __init__(self) -> None:
        self._library: Any = ctypes.CDLL(None)
        self._library.packets_send.argtypes = [ctypes.c_char_p, ctypes.c_uint64]
        self._library.packets_stall.argtypes = [ctypes.c_int64]
        self._library.packets_unsent.restype = ctypes.c_uint64
        self._library.packets_waiting.restype = ctypes.c_int64
        self._library.packets_violation.restype = ctypes.c_char_p

    def send(self, data: bytes) -> None:
        """Queues a packet for `s_axis`; ValueError: it has no byte."""
        if not data:
            raise ValueError("a packet has a byte at least")
        self._library.packets_send(data, len(data))

    @property
    def unsent(self) -> int:
        """Bytes queued that the accelerator has not taken."""
        return int(self._library.packets_unsent())

    def receive(self) -> bytes | None:
        """The oldest packet that came whole on `m_axis`; None: there is none."""
        size = self._library.packets_waiting()
        if size < 0:
            return None
        data = ctypes.create_string_buffer(max(1, size))
        self._library.packets_take(data)
        return data.raw[:size]

    def drop_sent(self) -> None:
        """Forgets what was not taken; half a packet stays with the accelerator, which is to be reset then."""
        self._library.packets_drop_sent()

    def drop_received(self) -> None:
        """Forgets what came."""
        self._library.packets_drop_received()

    def stall(self, share: int) -> None:
        """How often, in 256ths, either end holds back at random."""
        self._library.packets_stall(share)

    @property
    def violation(self) -> str:
        """The first breach of the AXI4-Stream protocol, or an empty string."""
        return str(self._library.packets_violation().decode())
