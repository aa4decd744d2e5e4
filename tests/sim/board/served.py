"""A virtual board that serves during a test, and the check that its clients left nothing behind."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from cnna.sim.board.board import VirtualBoard, open_board
from cnna.sim.board.design import design
from cnna.sim.board.server import Server
from cnna.spec.config import preset

from ...rigs.simulators import built_quickly
from ...waiting import until

MEMORY_BYTES = 64 << 20


@contextmanager
def serving(address: str, variant: str = "ps", backend: str = "emulator") -> Iterator[VirtualBoard]:
    """A board of `tiny` behind `address`. AssertionError: memory is still allocated at the end."""
    with built_quickly(design(preset("tiny"), variant).config):
        opened = open_board(preset("tiny"), variant, backend, MEMORY_BYTES)
    with closing(opened) as board, Server(board, address) as server:
        yield board
        until(lambda: server.connections.sweep() >= 0 and not board.dram.used_bytes, "a client has left memory behind")
