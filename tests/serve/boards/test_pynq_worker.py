"""The worker of a PYNQ board, on an emulated one in the same process: what it does with batches, other commands and errors."""

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnna.host.board.board_device import BoardDevice
from cnna.host.device.accelerator import Accelerator
from cnna.host.model import board_model
from cnna.host.model.alternate import BoardBatch
from cnna.host.model.flight import Route
from cnna.serve.boards.board_spec import BoardSpec
from cnna.serve.boards.pynq_runner import Pynq
from cnna.serve.boards.pynq_worker import END, PynqWorker
from cnna.serve.boards.slot import Slot
from cnna.spec.artifact import Artifact
from cnna.spec.errors import DataError
from cnna.spec.regmap import PLACES

from ...host.emulated_board import EmulatedBoard
from ...waiting import until

Images = NDArray[np.float32]


class Front:
    """The front's side: sends commands, and reads what comes."""

    def __init__(self, published: Path, images: NDArray[Any], control: socket.socket, slots: list[Slot]) -> None:
        self.folder, self.images, self.control, self.slots = published / "digits" / "1", images, control, slots
        self.lines = control.makefile("rb")

    def send(self, *commands: dict[str, Any]) -> None:
        """All at once, so that they wait behind each other."""
        self.control.sendall(b"".join(json.dumps(command).encode() + b"\n" for command in commands))

    def load(self, job: int, batch: int) -> dict[str, Any]:
        return {"job": job, "do": "load", "key": f"b{batch}", "path": str(self.folder / f"tiny-b{batch}.cnna"), "golden": None}

    def run(self, job: int, batch: int, first: int, count: int = 1, slot: int = 0) -> dict[str, Any]:
        """A batch of images from `first` on; its answer goes behind it."""
        self.slots[slot].fit(1 << 16)
        entries = self.slots[slot].write({"image": [self.images[first : first + count]]})
        more = {"slot": slot, "bytes": 1 << 16, "inputs": entries, "outputs_at": 1 << 15}
        return {"job": job, "do": "run", "key": f"b{batch}", **more}

    def answer(self) -> dict[str, Any]:
        """The next answer, without what the worker says beside."""
        while "job" not in (said := json.loads(self.lines.readline())):
            assert set(said) == {"waits"}
        return dict(said)

    def logits(self, answer: dict[str, Any], slot: int = 0) -> Any:
        assert "error" not in answer, answer
        return self.slots[slot].read(answer["outputs"])["logits"]


@contextmanager
def working(
    published: Path, images: NDArray[Any], monkeypatch: pytest.MonkeyPatch, board: BoardDevice | None = None
) -> Iterator[tuple[Front, BoardDevice]]:
    """A worker in a thread, which has opened an emulated board."""
    board = board or EmulatedBoard()

    def opened(self: Pynq) -> None:
        self.device, self.config = board, "tiny"

    monkeypatch.setattr(Pynq, "open", opened)
    monkeypatch.setattr(Pynq, "sense", lambda self: None)
    monkeypatch.setattr(PynqWorker, "_end", lambda self: self._commands.put(END))
    ours, theirs = socket.socketpair()
    files = [os.memfd_create("slot") for _ in range(2)]
    slots = [Slot(os.dup(file)) for file in files]
    worker = PynqWorker(theirs, BoardSpec("a", "pynq", overlay="cnna.bit"), slots)
    thread = threading.Thread(target=worker.serve)
    thread.start()
    front = Front(published, images, ours, [Slot(file) for file in files])
    try:
        assert front.answer() == {"job": 0, "seconds": 0.0, "config": "tiny", "places": PLACES}
        yield front, board
    finally:
        ours.shutdown(socket.SHUT_WR)
        thread.join()
        for close in (front.lines.close, ours.close, theirs.close, *(slot.close for slot in (*front.slots, *slots))):
            close()
    assert not board.buffers, "a worker that ends gives the board's memory back"
    assert board.turns.free


def test_batches_and_other_commands_in_any_order(
    published: Path, images: Images, answers: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load in the middle of a turn would wait for the turn that its own worker has; a batch would be lost."""
    threads, route = list[int | None](), Route.__init__

    def noted(self: Route, artifact: Artifact, more: int | None, **other: Any) -> None:
        threads.append(more)
        route(self, artifact, more, **other)

    monkeypatch.setattr(Route, "__init__", noted)
    with working(published, images, monkeypatch) as (front, _):
        front.send(
            front.load(1, 1),
            front.run(2, 1, 3),
            front.load(3, 4),
            front.run(4, 4, 5, 3, slot=1),
            {"job": 5, "do": "unload", "key": "b1"},
        )
        assert front.answer()["job"] == 1
        assert np.array_equal(front.logits(front.answer()), answers[3:4])
        assert front.answer()["job"] == 3
        assert np.array_equal(front.logits(front.answer(), 1), answers[5:8])
        assert front.answer()["job"] == 5
        front.send(front.run(6, 1, 0))
        assert front.answer()["error"] == "b1 is not loaded"
        front.send(front.run(7, 4, 0, 4), front.run(8, 4, 9, 2, slot=1))
        for first, count, slot in ((0, 4, 0), (9, 2, 1)):
            answer = front.answer()
            assert 0 < answer["seconds"] < 60
            assert np.array_equal(front.logits(answer, slot), answers[first : first + count])
    assert threads == [1, 1], "pieces on the CPU run beside the accelerator, and beside other workers"


def test_an_error_is_of_one_batch(published: Path, images: Images, answers: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch that waits behind it would fail too, or never be answered; the turn would stay taken."""
    with working(published, images, monkeypatch) as (front, board):
        front.send(front.load(1, 1), front.load(2, 4))
        assert [front.answer()["job"] for _ in range(2)] == [1, 2]
        monkeypatch.setattr(Accelerator, "load_outputs", broken_once(Accelerator.load_outputs))
        front.send(front.run(3, 1, 0), front.run(4, 4, 1, 2, slot=1))
        answer = front.answer()
        assert (answer["job"], answer["kind"]) == (3, "RunError")
        assert "internal error: ValueError: once" in answer["error"]
        assert np.array_equal(front.logits(front.answer(), 1), answers[1:3])
        wrong = front.run(5, 1, 0, 2)  # more samples than its batch
        front.send(wrong, front.run(6, 1, 7, slot=1))
        found = {answer["job"]: answer for answer in (front.answer(), front.answer())}
        assert found[5]["kind"] == "DataError"
        assert "2 samples at once, its batch is 1" in found[5]["error"]
        assert np.array_equal(front.logits(found[6], 1), answers[7:8])
        until(lambda: board.turns.free, "the turn stays taken without a batch")


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_fault_of_the_worker_is_of_one_batch(
    published: Path, images: Images, answers: Images, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The batch would never be answered, and its neighbour would fail in its place."""
    with working(published, images, monkeypatch) as (front, _):
        front.send(front.load(1, 1), front.load(2, 4))
        assert [front.answer()["job"] for _ in range(2)] == [1, 2]
        if place == "before":
            monkeypatch.setattr(BoardBatch, "of", broken_once(BoardBatch.of))
        else:
            monkeypatch.setattr(Pynq, "rows", broken_once(Pynq.rows))
        front.send(front.run(3, 1, 0), front.run(4, 4, 1, 2, slot=1))
        answer = front.answer()
        assert (answer["job"], answer["error"]) == (3, "internal error: ValueError: once")
        assert np.array_equal(front.logits(front.answer(), 1), answers[1:3])


def test_data_at_fault_are_found_one_by_one(
    published: Path, images: Images, answers: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A piece on the CPU that refuses one batch's data would fail the other batch with it, for good."""
    with working(published, images, monkeypatch) as (front, _):
        front.send(front.load(1, 1))
        assert front.answer()["job"] == 1
        landed = board_model.BoardModel.landed

        def refused(self: Any, flight: Any) -> Any:
            if np.array_equal(flight.whole["image"], images[:1]):
                raise DataError("these data")
            return landed(self, flight)

        monkeypatch.setattr(board_model.BoardModel, "landed", refused)
        front.send(front.run(2, 1, 0), front.run(3, 1, 4, slot=1))
        found = {answer["job"]: answer for answer in (front.answer(), front.answer())}
        assert np.array_equal(front.logits(found[3], 1), answers[4:5])
        assert np.array_equal(front.logits(found[2]), answers[:1]), "by itself it takes another way, which refuses nothing here"


def broken_once(method: Callable[..., Any]) -> Any:
    """A method that fails the first time."""
    left = [1]

    def broken(self: Any, *given: Any, **more: Any) -> Any:
        if left[0]:
            left[0] = 0
            raise ValueError("once")
        return method(self, *given, **more)

    return broken
