"""The boards of the tests of models: emulated without pynq, or mapped; empty when a test has ended."""

from collections.abc import Iterator

import pytest

from ..emulated_board import EmulatedBoard
from ..mapped_board import MappedBoard


@pytest.fixture(params=["queue", "no queue"])
def queue(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """An accelerator with a queue of runs, and one of a map before that."""
    if request.param != "queue":
        monkeypatch.setattr("cnna.host.board.board_device.has_queue", lambda read: False)


@pytest.fixture
def board(queue: None) -> Iterator[EmulatedBoard]:
    """A board that has no memory allocated, and must have none at the end."""
    with_memory = EmulatedBoard()
    yield with_memory
    assert not with_memory.buffers, "a test has left memory allocated"


@pytest.fixture
def mapped(queue: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[MappedBoard]:
    """A mapped board, on which Python's own way of running jobs would be an error."""
    made = MappedBoard()
    for name in ("PingPong", "Queued"):
        monkeypatch.setattr(f"cnna.host.model.board_model.{name}", None)
    yield made
    made.shut()
    assert not made.buffers, "a test has left memory allocated"
