"""A virtual board for the tests of this folder, which need pynq (it has no release for Python 3.13 yet)."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("pynq") else ["test_*.py"]


@pytest.fixture(scope="module")
def board(address: str) -> Iterator[object]:
    """An emulated `tiny` board of 64 MiB that serves at `address`; its `sim.board.board.Board`."""
    from cnna.hw.config import preset
    from cnna.sim.board.backend import open_backend
    from cnna.sim.board.board import Board
    from cnna.sim.board.design import design
    from cnna.sim.board.server import Server

    config = preset("tiny")
    made = Board(design(config), open_backend("emulator", config, 64 << 20))
    with Server(made, address):
        yield made
    made.close()
