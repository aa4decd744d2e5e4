"""Ctrl-C and `close` while a session runs, on a mapped board: by the native run loop, and in Python."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import numpy as np
import pytest

from cnna.host.model.session import InferenceSession
from cnna.host.native import library
from cnna.spec.errors import RunError
from cnna.spec.regmap import REGISTERS, offset

from ..hand_made import expected, requantised_copy, samples
from ..mapped_board import MappedBoard

HANG_SECONDS = 120.0  # of a run, before it is given up
FEED = {"x": samples(1)}


@pytest.fixture(params=["native", "python"])
def stuck(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[MappedBoard]:
    """A board that hangs as soon as it is started."""
    if request.param == "python":
        monkeypatch.setattr(library, "native", lambda: library.Found(None, "a test"))
    made = MappedBoard()
    made.page.stuck = True
    yield made
    made.shut()
    assert not made.buffers, "a test has left memory allocated"


def interrupted(board: MappedBoard, waits: Callable[[], Any]) -> None:
    """Waits, and gets Ctrl-C once the accelerator has been started."""

    def press() -> None:
        while not board.page.starts:
            time.sleep(0.01)
        time.sleep(0.3)  # by when the main thread waits
        os.kill(os.getpid(), signal.SIGINT)

    def pressed() -> None:
        threading.Thread(target=press).start()
        waits()

    with pytest.raises(KeyboardInterrupt):
        pressed()


def test_ctrl_c_ends_what_result_waits_for(stuck: MappedBoard) -> None:
    """The end of the session would wait until a run that hangs is given up, and then for each that stands behind it."""
    began = time.monotonic()
    with InferenceSession(requantised_copy(batch=1), stuck, timeout_seconds=HANG_SECONDS) as session:
        begun: list[futures.Future[Any]] = []

        def waits() -> None:
            begun.extend(session.run_async(None, FEED) for _ in range(2))
            begun[0].result()

        interrupted(stuck, waits)
        first, second = begun
        with pytest.raises(RunError, match="model copy: Ctrl-C has ended this run"):
            first.result()
        assert second.cancelled()
        assert not REGISTERS["STATUS"].unpack(stuck.read(offset("STATUS")))["busy"]
        stuck.page.stuck = False
        assert np.array_equal(session.run(None, FEED)[0], expected(FEED["x"]))
        assert np.array_equal(session.run_async(None, FEED).result()[0], expected(FEED["x"]))
    assert time.monotonic() - began < HANG_SECONDS / 2


def test_ctrl_c_ends_a_session_that_is_left(stuck: MappedBoard) -> None:
    """`futures.wait` and a loop of the user's own are no `result`: leaving the block must not wait for the run either."""

    def waits() -> None:
        with InferenceSession(requantised_copy(batch=1), stuck, timeout_seconds=HANG_SECONDS) as session:
            futures.wait([session.run_async(None, FEED)])

    began = time.monotonic()
    interrupted(stuck, waits)
    assert time.monotonic() - began < HANG_SECONDS / 2


def test_a_run_of_another_thread_goes_on(stuck: MappedBoard) -> None:
    """Ctrl-C in the wait for one session must not end what another session of the process runs."""
    stuck.page.stuck = False
    with (
        InferenceSession(requantised_copy(batch=1), stuck) as one,
        InferenceSession(requantised_copy(batch=1), stuck) as other,
    ):
        one.run_async(None, FEED).result()
        answers = other.stream(None, iter([FEED] * 3))
        next(answers)
        one.__exit__(KeyboardInterrupt, None, None)
        assert len(list(answers)) == 2


def test_a_stream_that_another_thread_ends_says_so(stuck: MappedBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that asks for the next answer while another one closes the session would get Python's words about generators."""
    stuck.page.stuck = False
    ending, asked, reset = threading.Event(), threading.Event(), stuck.reset

    def slow() -> None:
        ending.set()
        assert asked.wait(HANG_SECONDS)
        reset()

    session = InferenceSession(requantised_copy(batch=1), stuck)
    answers = session.stream(None, [FEED] * 9)
    next(answers)
    monkeypatch.setattr(stuck, "reset", slow)
    closing = threading.Thread(target=session.close)
    closing.start()
    assert ending.wait(HANG_SECONDS)
    with pytest.raises(RunError, match="model copy is closed"):
        next(answers)
    asked.set()
    closing.join()
