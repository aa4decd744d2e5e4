"""The board of the tests of models: emulated without pynq, and empty when a test has ended."""

from collections.abc import Iterator

import pytest

from ..emulated_board import EmulatedBoard


@pytest.fixture
def board() -> Iterator[EmulatedBoard]:
    """A board that has no memory allocated, and must have none at the end."""
    with_memory = EmulatedBoard()
    yield with_memory
    assert not with_memory.buffers, "a test has left memory allocated"
