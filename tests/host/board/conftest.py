"""The board of variant `pl` for the tests of its driver: emulated without pynq, and empty when a test has ended."""

from collections.abc import Iterator

import pytest

from ..emulated_board import StreamedBoard


@pytest.fixture
def board() -> Iterator[StreamedBoard]:
    """A board that has no memory allocated, and must have none at the end."""
    made = StreamedBoard()
    yield made
    assert not made.buffers, "a test has left bytes of the PL's DDR4 allocated"
    assert not made.board.dram.used_bytes, "a test has left memory of the host allocated"
