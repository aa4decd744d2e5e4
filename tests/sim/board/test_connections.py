"""Whose memory is freed: that of connections that have ended, and of no others."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cnna.sim.board import connections
from cnna.sim.board.connections import Connections
from cnna.sim.board.dram import Dram


@pytest.fixture
def dram() -> Dram:
    """A memory of 1 MiB."""
    return Dram(np.zeros(1 << 20, np.uint8), 0x8_0000_0000)


@pytest.fixture
def pair() -> Iterator[tuple[int, socket.socket]]:
    """A server's port and a client that is connected to it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
        yield server.getsockname()[1], client
        client.close()
        accepted.close()


def _peer(client: socket.socket) -> str:
    """The client's name, as gRPC writes it."""
    return f"ipv4:127.0.0.1:{client.getsockname()[1]}"


def _watching(dram: Dram, port: int, monkeypatch: pytest.MonkeyPatch, address: str = "") -> Connections:
    monkeypatch.setattr(connections, "LOOK_SECONDS", 3600)  # only the test sweeps
    return Connections(dram, port, address)


def test_a_connection_that_ends_frees_what_it_owns(
    dram: Dram, pair: tuple[int, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A living connection must keep its memory, however often the server looks."""
    port, client = pair
    watching = _watching(dram, port, monkeypatch)
    peer = _peer(client)
    watching.seen(peer)
    dram.allocate(5000, peer)
    assert watching.sweep() == 0
    client.close()
    assert watching.sweep() == 5000
    assert dram.used_bytes == 0
    watching.close()


@pytest.mark.parametrize("shared", ["client", "server"])
def test_who_has_only_the_port_in_common_is_somebody_else(dram: Dram, monkeypatch: pytest.MonkeyPatch, shared: str) -> None:
    """Two boards on one machine have one port, and the kernel may give their clients equal ports: these are different clients."""
    gone = "127.0.0.3" if shared == "server" else "127.0.0.2"
    lives, server = "127.0.0.3", {"client": "127.0.0.1", "server": "127.0.0.2"}[shared]
    with socket.create_server((server, 0)) as listening:
        port = listening.getsockname()[1]
        with socket.create_connection((server, port), source_address=(lives, 0)) as client:
            accepted, _ = listening.accept()
            watching = _watching(dram, port, monkeypatch, "127.0.0.1")
            peer = f"ipv4:{gone}:{client.getsockname()[1]}"
            watching.seen(peer)
            dram.allocate(5000, peer)
            assert watching.sweep() == 5000
            accepted.close()
            watching.close()


@pytest.mark.parametrize(
    ("end", "names"),
    [
        ("0100007F", ["ipv4:127.0.0.1"]),
        ("0000000000000000FFFF00000100007F", ["ipv4:127.0.0.1", "ipv6:[::ffff:127.0.0.1]"]),
        ("00000000000000000000000001000000", ["ipv6:[::1]", "ipv6:%5B::1%5D"]),
    ],
)
def test_a_client_is_found_by_whatever_its_address_is_called(
    dram: Dram, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, end: str, names: list[str]
) -> None:
    """The kernel writes words in its own byte order (here little-endian), and gRPC writes brackets, quoted or not."""
    (tmp_path / "tcp").write_text(f"  sl  local_address rem_address   st\n   0: {end}:1F1F {end}:9C40 01\n")
    monkeypatch.setattr(connections, "TABLES", (str(tmp_path / "tcp"),))
    for address in (names[0].partition(":")[2].strip("[]"), "", "localhost", "0.0.0.0", "::"):
        watching = _watching(dram, 0x1F1F, monkeypatch, address)
        for name in names:
            dram.allocate(5000, f"{name}:40000")
            assert watching.sweep() == 0, (address, name)
            assert dram.free_all(f"{name}:40000") == 5000
        watching.close()


def test_nothing_is_freed_under_a_program_that_runs(
    dram: Dram, pair: tuple[int, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed client's program goes on: it would write into what the next client is given."""
    port, client = pair
    works = [True]
    watching = _watching(dram, port, monkeypatch)
    watching.busy = lambda: bool(works)
    dram.allocate(5000, _peer(client))
    client.close()
    assert watching.sweep() == watching.sweep(idle=True) == 0
    works.clear()
    assert watching.sweep() == 5000
    watching.close()


def test_one_that_was_dropped_for_idleness_keeps_it_until_it_is_needed(
    dram: Dram, pair: tuple[int, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """gRPC hangs up after half an hour of silence: a notebook that rests must find its buffers again."""
    port, client = pair
    watching = _watching(dram, port, monkeypatch)
    peer = _peer(client)
    watching.seen(peer)
    watching.last_seen[peer] -= connections.IDLE_SECONDS + 1
    dram.allocate(5000, peer)
    client.close()
    assert watching.sweep() == 0
    assert dram.used_bytes == 5000
    assert watching.sweep(idle=True) == 5000
    watching.close()


def test_who_comes_while_the_kernel_is_asked_is_not_taken_for_dead(
    dram: Dram, pair: tuple[int, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection is not in the list, which was read before it came."""
    watching = _watching(dram, pair[0], monkeypatch)

    def alive() -> set[connections.End]:
        watching.seen("ipv4:127.0.0.1:5")
        dram.allocate(100, "ipv4:127.0.0.1:5")
        return set()

    monkeypatch.setattr(watching, "_alive", alive)
    assert watching.sweep() == 0
    assert dram.used_bytes == 100
    watching.close()


def test_two_sweeps_at_once_forget_a_connection_once(
    dram: Dram, pair: tuple[int, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watcher and an allocation without room sweep in two threads: the later one must not look for what the other forgot."""
    watching = _watching(dram, pair[0], monkeypatch)
    watching.seen("ipv4:127.0.0.1:5")
    dram.allocate(100, "ipv4:127.0.0.1:5")
    freed: list[int] = []
    other = threading.Thread(target=lambda: freed.append(watching.sweep(idle=True)))

    def alive() -> set[connections.End]:
        monkeypatch.undo()  # the other sweep asks the kernel
        other.start()
        other.join(timeout=0.2)  # it waits for this one
        return set()

    monkeypatch.setattr(watching, "_alive", alive)
    freed.append(watching.sweep())
    other.join()
    assert sorted(freed) == [0, 100]
    watching.close()


def test_memory_is_used_again_and_never_twice(dram: Dram) -> None:
    """First fit: a gap between buffers must be filled, and neighbours must not overlap."""
    one, two, three = (dram.allocate(size, "a") for size in (4096, 100, 300_000))
    assert two.address == one.address + 4096
    assert three.address == two.address + 4096
    dram.free(two.name)
    again = dram.allocate(4096, "b")
    assert again.address == two.address
    assert dram.allocate(4097, "b").address > three.address
    assert dram.free_all("a") == 4096 + 300_000
    assert dram.owners() == {"b"}
