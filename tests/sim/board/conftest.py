"""A virtual board for the tests of this folder, which need pynq (it has no release for Python 3.13 yet)."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("pynq") else ["test_*.py"]


@pytest.fixture(scope="module")
def board(address: str) -> Iterator[object]:
    """An emulated `tiny` board of 64 MiB that serves at `address`; its `sim.board.board.Board`."""
    yield from _served("ps", address)


@pytest.fixture(scope="module")
def pl_board(address: str) -> Iterator[object]:
    """The same of variant `pl`."""
    yield from _served("pl", address.rpartition(".")[0] + ".8")


def _served(variant: str, address: str) -> Iterator[object]:
    from cnna.hw.config import preset
    from cnna.sim.board.board import open_board
    from cnna.sim.board.server import Server

    made = open_board(preset("tiny"), variant, "emulator", 64 << 20)
    with Server(made, address):
        yield made
    made.close()
