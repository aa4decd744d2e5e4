"""Frees what connections that have ended still own: a client that was killed cannot do it itself.

gRPC tells a server nothing about connections, so the kernel is asked (Linux: `/proc/self/net/tcp`). A client that asks for nothing
for half an hour drops its connection too and comes back on another when it wants something: what such a one owns stays until
the memory is needed.
"""

import threading
import time
from pathlib import Path

from cnna.sim.board.dram import Dram

LOOK_SECONDS = 1.0
IDLE_SECONDS = 25 * 60  # a connection that ends after so long without a request was dropped by gRPC itself
ESTABLISHED = "01"
TABLES = ("/proc/self/net/tcp", "/proc/self/net/tcp6")


class Connections:
    """Watches the owners of buffers; `port` is the server's."""

    def __init__(self, dram: Dram, port: int) -> None:
        self.dram, self.port = dram, port
        self._last: dict[str, float] = {}  # connection: when it last asked for something
        self._idle: set[str] = set()  # ended, but perhaps to come back
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="connections", daemon=True)
        self._thread.start()

    def seen(self, peer: str) -> None:
        """This connection asks for something."""
        self._last[peer] = time.monotonic()

    def sweep(self, idle: bool = False) -> int:
        """Frees what ended connections own, with `idle` that of all of them; how many bytes that were."""
        known, owners = list(self._last), self.dram.owners()  # before the kernel is asked: who comes meanwhile is not judged
        alive = self._alive()
        if alive is None:
            return 0
        for peer in [peer for peer in known if _port(peer) not in alive]:
            if time.monotonic() - self._last.pop(peer) > IDLE_SECONDS:
                self._idle.add(peer)
        ended = {peer for peer in owners if _port(peer) not in alive}
        self._idle &= ended
        return sum(self.dram.free_all(peer) for peer in (ended if idle else ended - self._idle))

    def close(self) -> None:
        """Ends the watching."""
        self._closed.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._closed.wait(LOOK_SECONDS):
            self.sweep()

    def _alive(self) -> set[int] | None:
        """Ports at the other end of connections to ours; None where the kernel does not say."""
        rows = [line.split() for table in TABLES if Path(table).exists() for line in Path(table).read_text().splitlines()[1:]]
        if not rows:
            return None
        return {_hex_port(row[2]) for row in rows if row[3] == ESTABLISHED and _hex_port(row[1]) == self.port}


def _port(peer: str) -> int:
    """Of `ipv4:127.0.0.1:40000` or `ipv6:[::1]:40000`."""
    return int(peer.rpartition(":")[2])


def _hex_port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)
