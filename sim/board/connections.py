"""Frees the buffers of connections that have ended, because a client that was killed cannot free them itself.

gRPC tells a server nothing about connections, so the kernel is asked (Linux: `/proc/self/net/tcp`). A client that has sent no
request for half an hour drops its connection too, and opens another one for its next request. Its buffers stay until the memory is
needed.
"""

import ipaddress
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from cnna.sim.board.dram import Dram

LOOK_SECONDS = 1.0
IDLE_SECONDS = 25 * 60  # if a connection ends after so long without a request, gRPC itself may have dropped it
ESTABLISHED = "01"
TABLES = ("/proc/self/net/tcp", "/proc/self/net/tcp6")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
End = tuple[Address, int]  # one end of a connection: address and port


class Connections:
    """Watches the owners of buffers. port: the server's. address: the one to which the server is bound; none: all addresses.

    Ends are told apart by address and port, because two clients, or two boards on one machine, may have the same port. Nothing is
    freed while the accelerator is `busy`: the program of a killed client would write into the memory of the next one.
    """

    def __init__(self, dram: Dram, port: int, address: str = "", busy: Callable[[], bool] = lambda: False) -> None:
        self.dram = dram
        self.port = port
        self.bound = _bound(address)
        self.busy = busy
        self.last_seen: dict[str, float] = {}  # by connection, the time of its last request
        self._idle: set[str] = set()  # ended connections whose clients may come back
        self._sweeping = threading.Lock()  # the watcher sweeps, and so does an allocation that finds no room
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="connections", daemon=True)
        self._thread.start()

    def seen(self, peer: str) -> None:
        """Notes a request of this connection."""
        self.last_seen[peer] = time.monotonic()

    def sweep(self, idle: bool = False) -> int:
        """Frees the buffers of ended connections; with `idle`, also of those that were idle. Returns the number of bytes freed."""
        with self._sweeping:
            return self._sweep(idle)

    def _sweep(self, idle: bool) -> int:
        known = list(self.last_seen)  # before the kernel is asked, so that new connections are left alone
        owners = self.dram.owners()
        alive = self._alive()
        if alive is None:
            return 0
        for peer in [peer for peer in known if _end(peer) not in alive]:
            if time.monotonic() - self.last_seen.pop(peer) > IDLE_SECONDS:
                self._idle.add(peer)
        ended = {peer for peer in owners if _end(peer) not in alive}
        self._idle &= ended
        if ended and self.busy():
            return 0
        return sum(self.dram.free_all(peer) for peer in (ended if idle else ended - self._idle))

    def close(self) -> None:
        """Ends the watching."""
        self._closed.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._closed.wait(LOOK_SECONDS):
            self.sweep()

    def _alive(self) -> set[End] | None:
        """The remote ends of the connections to this port; None if the kernel does not tell."""
        rows = [line.split() for table in TABLES if Path(table).exists() for line in Path(table).read_text().splitlines()[1:]]
        if not rows:
            return None
        ends = [(_hex_end(row[1]), _hex_end(row[2])) for row in rows if row[3] == ESTABLISHED]
        return {far for (address, port), far in ends if port == self.port and self.bound in (None, address)}


def _bound(address: str) -> Address | None:
    """The single address to which a server is bound; None if there are several, or if it is a name."""
    with suppress(ValueError):
        bound = _plain(ipaddress.ip_address(address))
        return None if bound.is_unspecified else bound
    return None


def _end(peer: str) -> End:
    """The end that gRPC writes as `ipv4:127.0.0.1:40000`, `ipv6:[::1]:40000`, or the latter with quoted brackets."""
    address, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return _plain(ipaddress.ip_address(address.strip("[]").partition("%")[0])), int(port)


def _hex_end(text: str) -> End:
    """The end that the kernel writes as `0100007F:1F1F`: 32-bit words in the byte order of the machine."""
    words, _, port = text.partition(":")
    raw = b"".join(int(words[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(words), 8))
    return _plain(ipaddress.ip_address(raw)), int(port, 16)


def _plain(address: Address) -> Address:
    """The plain form of an IPv4 address that a socket for both versions writes as an IPv6 address."""
    return getattr(address, "ipv4_mapped", None) or address
