"""The boards of the tests of models: emulated without pynq, or mapped; empty when a test has ended."""

from collections.abc import Iterator

import pytest

from ..emulated_board import EmulatedBoard
from ..mapped_board import MappedBoard


@pytest.fixture
def board() -> Iterator[EmulatedBoard]:
    """A board that has no memory allocated, and must have none at the end."""
    with_memory = EmulatedBoard()
    yield with_memory
    assert not with_memory.buffers, "a test has left memory allocated"


@pytest.fixture
def mapped(monkeypatch: pytest.MonkeyPatch) -> Iterator[MappedBoard]:
    """A mapped board, on which Python's own way of running jobs would be an error."""
    made = MappedBoard()
    monkeypatch.setattr("cnna.host.model.board_model.PingPong", None)
    yield made
    made.shut()
    assert not made.buffers, "a test has left memory allocated"
