"""A single run in one call of the library answers and fails as any other does; if something stands in its way, it does nothing."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnna.host.board.turn import LocalTurn
from cnna.host.model.at_once import AtOnce
from cnna.host.model.board_model import BoardModel
from cnna.host.model.session import InferenceSession
from cnna.host.native.loop import Loop
from cnna.spec.errors import RunError
from cnna.spec.identity import SIZES
from cnna.spec.metrics import Figures
from cnna.spec.regmap import offset

from ..hand_made import requantised_copy
from ..mapped_board import MappedBoard
from .test_planned import classifier, feeds, pictures, unplanned

FEED = {"x": pictures(1, 1)}
MEASURED = ("wall_seconds", "fps_end_to_end", "cpu_seconds")
WHOLE_SECONDS = 60.0  # more than any run here takes


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each single run was done in one call, one after the other."""
    done: list[bool] = []
    run = AtOnce.run

    def noted(self: AtOnce, x: Any) -> Any:
        done.append((found := run(self, x)) is not None)
        return found

    monkeypatch.setattr(AtOnce, "run", noted)
    return done


@pytest.fixture
def wanted(mapped: MappedBoard) -> NDArray[Any]:
    """The answer to FEED, without a plan."""
    with unplanned(classifier(1), mapped) as plain:
        answer: NDArray[Any] = plain.run(None, FEED)[0]
    return answer


def another_process(board: MappedBoard) -> LocalTurn:
    """The turn as another process has it."""
    turn = board.turns.turn
    assert isinstance(turn, LocalTurn)
    return LocalTurn(turn.path)


def same_figures(one: Figures, other: Figures) -> bool:
    """Whether figures are the same, but for the seconds that were measured."""
    return all(one[name] == other[name] for name in one if name not in MEASURED)


def answers(session: InferenceSession, wanted: NDArray[Any]) -> bool:
    return np.array_equal(session.run(None, FEED)[0], wanted)


@pytest.mark.parametrize("batch", [1, 2])
def test_every_feed_is_answered_as_without_a_plan(mapped: MappedBoard, at_once: list[bool], batch: int) -> None:
    """Two ways that differ would give an answer that depends on what was asked before; a way that nothing takes would be dead."""
    artifact, given = classifier(batch), feeds(batch)
    with unplanned(artifact, mapped) as plain, InferenceSession(artifact, mapped) as session:
        kept = []
        for feed in [*given, *given, *reversed(given)]:
            kept.append((session.run(["s"], feed)[0], plain.run(None, feed)[0]))
            assert same_figures(session.last, plain.last), "the figures are another run's"
        assert all(np.array_equal(*pair) for pair in kept), "an answer that is kept must not change"
    assert sum(at_once) > len(given)


def test_another_holder_in_between_is_seen(mapped: MappedBoard, at_once: list[bool], wanted: NDArray[Any]) -> None:
    """What a killed process has left on the accelerator would be taken for the end of this run."""
    with InferenceSession(classifier(1), mapped) as session:
        assert answers(session, wanted)
        assert answers(session, wanted)
        other = another_process(mapped)
        assert other.take("another")
        other.give()
        for _ in range(2):
            assert answers(session, wanted)
    assert at_once == [True, False, True]


def test_a_turn_that_another_has_is_waited_for(mapped: MappedBoard, at_once: list[bool], wanted: NDArray[Any]) -> None:
    """Two processes would start the accelerator at once."""
    with InferenceSession(classifier(1), mapped, turn_seconds=0.1) as session:
        assert answers(session, wanted)
        other = another_process(mapped)
        assert other.take("process 7, model z")
        starts = mapped.page.starts
        with pytest.raises(RunError, match=r"busy for 0.1 s: process 7, model z has it"):
            session.run(None, FEED)
        assert mapped.page.starts == starts
        other.give()
        assert answers(session, wanted)
    assert not any(at_once)


def test_a_stream_of_the_same_thread_is_said(mapped: MappedBoard, wanted: NDArray[Any]) -> None:
    """The thread would wait for itself."""
    with InferenceSession(classifier(1), mapped) as session:
        assert answers(session, wanted)
        stream = session.stream(None, [FEED] * 3)
        next(stream)
        with pytest.raises(RunError, match="this thread has the accelerator already"):
            session.run(None, FEED)
        assert len(list(stream)) == 2
        assert answers(session, wanted)


def test_another_image_is_said(mapped: MappedBoard, wanted: NDArray[Any]) -> None:
    """Its registers mean something else, and it would write anywhere."""
    word = offset(SIZES[0]) // 4
    with InferenceSession(classifier(1), mapped) as session:
        for _ in range(2):
            assert answers(session, wanted)
        before, starts = int(mapped.page.array[word]), mapped.page.starts
        mapped.page.array[word] = before + 1
        with pytest.raises(RunError, match="another image has been loaded"):
            session.run(None, FEED)
        assert mapped.page.starts == starts
        mapped.page.array[word] = before
        assert answers(session, wanted)


def test_a_file_that_was_removed_is_noticed(mapped: MappedBoard, at_once: list[bool], wanted: NDArray[Any]) -> None:
    """Others lock another file of that name: two processes would have the turn."""
    turn = mapped.turns.turn
    assert isinstance(turn, LocalTurn)
    with InferenceSession(classifier(1), mapped) as session:
        for _ in range(2):
            assert answers(session, wanted)
        turn.path.unlink()
        turn.seen -= 2
        assert answers(session, wanted)
        assert turn.path.exists()
        for _ in range(2):
            assert answers(session, wanted)
    assert at_once[1:] == [False, True, True], "the new file is known after a turn"


def test_a_run_that_takes_long_is_awaited(
    mapped: MappedBoard, at_once: list[bool], wanted: NDArray[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library gives a run back to Python after a while, so that Ctrl-C gets through: its answer would be lost."""
    monkeypatch.setattr("cnna.host.native.loop.FOREVER_SECONDS", 1e-6)
    with InferenceSession(classifier(1), mapped) as session:
        for number in range(6):
            assert answers(session, wanted)
            if number % 2:
                assert [y.tolist() for (y,) in session.stream(None, [FEED] * 3)] == [wanted.tolist()] * 3, "runs were miscounted"
            assert mapped.turns.free
            assert session.last["wall_seconds"] < WHOLE_SECONDS
        other = another_process(mapped)
        assert other.take("another"), "the turn was not given back"
        other.give()
    assert at_once == [True] * 5


def test_ctrl_c_ends_it(mapped: MappedBoard, wanted: NDArray[Any]) -> None:
    """It would hold Python, the accelerator and the turn for ever."""
    with InferenceSession(classifier(1), mapped, retries=0) as session:
        for _ in range(2):
            assert answers(session, wanted)
        mapped.page.stuck = True
        threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt):
            session.run(None, FEED)
        mapped.page.stuck = False
        assert mapped.turns.free
        for _ in range(2):
            assert answers(session, wanted)


@pytest.mark.parametrize("expired", [False, True])
def test_ctrl_c_at_the_end_of_the_call(
    mapped: MappedBoard, wanted: NDArray[Any], monkeypatch: pytest.MonkeyPatch, expired: bool
) -> None:
    """Python may see it before it knows the code: a run would be counted that has not ended, or stopped in another's turn."""
    in_turn = Loop.in_turn
    armed: list[bool] = []

    def interrupted(self: Loop, *rest: Any) -> Any:
        call = in_turn(self, *rest)

        def called() -> int:
            code = call()
            if armed:
                raise KeyboardInterrupt
            return code

        return called

    monkeypatch.setattr(Loop, "in_turn", interrupted)
    with InferenceSession(classifier(1), mapped) as session:
        for _ in range(2):
            assert answers(session, wanted)
        mapped.page.stuck = expired
        armed.append(True)
        resets = mapped.page.resets
        with pytest.raises(KeyboardInterrupt):
            session.run(None, FEED)
        assert mapped.page.resets == resets + expired, "the turn may be another's by now"
        assert mapped.turns.free
        armed.clear()
        mapped.page.stuck = False
        for _ in range(2):
            assert answers(session, wanted)
            assert [y.tolist() for (y,) in session.stream(None, [FEED] * 2)] == [wanted.tolist()] * 2


def test_a_run_that_hangs_is_said_and_its_limits_end(mapped: MappedBoard, wanted: NDArray[Any]) -> None:
    """The words would be those of another limit, or the board would keep this model's."""
    limits = mapped.timeout_seconds, mapped.limit_clocks
    with InferenceSession(classifier(1), mapped, retries=0, timeout_seconds=0.4) as session:
        for _ in range(2):
            assert answers(session, wanted)
        mapped.page.stuck = True
        with pytest.raises(RunError, match=r"no progress .*0\.4 s|0\.4 s"):
            session.run(None, FEED)
        mapped.page.stuck = False
        assert (mapped.timeout_seconds, mapped.limit_clocks) == limits
        for _ in range(2):
            assert answers(session, wanted)


def test_closing_waits_for_it_and_then_refuses(mapped: MappedBoard, wanted: NDArray[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory would be freed under a run."""
    in_turn, inside, go_on = Loop.in_turn, threading.Event(), threading.Event()

    def waiting(self: Loop, *rest: Any) -> Any:
        call = in_turn(self, *rest)

        def called() -> int:
            inside.set()
            assert go_on.wait(10)
            return call()

        return called

    monkeypatch.setattr(Loop, "in_turn", waiting)
    session = InferenceSession(classifier(1), mapped)
    assert answers(session, wanted)
    found: list[Any] = []
    running = threading.Thread(target=lambda: found.append(session.run(None, FEED)[0]))
    running.start()
    assert inside.wait(10)
    closing = threading.Thread(target=session.close)
    closing.start()
    time.sleep(0.05)
    assert mapped.buffers
    go_on.set()
    running.join(10)
    closing.join(10)
    assert np.array_equal(found[0], wanted)
    with pytest.raises(RunError, match="is closed"):
        session.run(None, FEED)


def test_two_models_and_many_threads_answer_right(mapped: MappedBoard, wanted: NDArray[Any]) -> None:
    """Answers, counters or turns of one could reach another."""
    with InferenceSession(classifier(1), mapped) as one, InferenceSession(requantised_copy(batch=1), mapped) as other:
        x = np.random.default_rng(2).normal(0, 1, (1, *FEED["x"].shape[1:])).astype(np.float32)
        (own,) = other.run(None, {"x": x})
        wrong: list[str] = []

        def asks(number: int) -> None:
            for _ in range(15):
                if number % 2:
                    if not np.array_equal(other.run(None, {"x": x})[0], own):
                        wrong.append("other")
                elif not answers(one, wanted):
                    wrong.append("one")

        asking = [threading.Thread(target=asks, args=(number,)) for number in range(4)]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join(60)
        assert not wrong
        assert mapped.turns.free


def test_a_fork_is_refused(mapped: MappedBoard, wanted: NDArray[Any], tmp_path: Path) -> None:
    """It would start its parent's accelerator, without its parent's turn."""
    with InferenceSession(classifier(1), mapped) as session:
        for _ in range(2):
            assert answers(session, wanted)
        said, starts = tmp_path / "said", mapped.page.starts
        if (child := os.fork()) == 0:
            try:
                session.run(None, FEED)
            except RunError as error:
                said.write_text(str(error))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert "forked" in said.read_text()
        assert mapped.page.starts == starts
        assert answers(session, wanted)


def test_a_model_that_nobody_closes_is_freed(mapped: MappedBoard, wanted: NDArray[Any]) -> None:
    """The shorter way knows its model, which would keep its memory until the process ends."""
    import gc

    session = InferenceSession(classifier(1), mapped)
    for _ in range(2):
        assert answers(session, wanted)
    assert mapped.buffers
    del session
    gc.collect()
    assert not mapped.buffers


def test_without_a_plan_nothing_is_at_once(mapped: MappedBoard, wanted: NDArray[Any]) -> None:
    """Work on the CPU behind a run is not the library's."""
    with unplanned(classifier(1), mapped) as session:
        for _ in range(2):
            assert answers(session, wanted)
    with BoardModel(classifier(1), mapped) as model:
        assert model.at_once(FEED) is None, "it has not had a turn"
        assert np.array_equal(model.run(FEED)["s"], wanted)
        assert model.at_once([FEED]) is None
        assert model.at_once({"y": FEED["x"]}) is None
        found = model.at_once(FEED)
        assert found is not None
        assert np.array_equal(found["s"], wanted)
