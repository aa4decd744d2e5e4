"""Models on a mapped board: the native run loop answers as the emulator does, and fails with the words of the Python path."""

import gc
import itertools
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnna.host.board.interrupt import Interrupt
from cnna.host.model.alternate import BoardBatch, alternate
from cnna.host.model.board_model import BoardModel
from cnna.host.model.pingpong import slots_of
from cnna.host.native import library
from cnna.host.native.loop import Loop
from cnna.spec.errors import DataError, RunError, TimedOutError
from cnna.spec.regmap import REGISTERS, offset

from ...waiting import until
from ..emulated_board import STANDING
from ..hand_made import expected, failing, requantised_copy, samples
from ..mapped_board import MappedBoard


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_answers_are_the_emulators(mapped: MappedBoard, batch: int) -> None:
    """A slot, an address or a count of samples that is wrong would give another batch's answers."""
    with BoardModel(requantised_copy(batch=batch), mapped) as session:
        for count in (1, 2, 5, 7):
            x = samples(count, seed=count)
            assert np.array_equal(session.run(x), expected(x, batch=batch))
        feeds = [samples(1 + number % batch, seed=number) for number in range(20)]
        for x, answer in zip(feeds, session.stream(feeds), strict=True):
            assert np.array_equal(answer, expected(x, batch=batch))


def test_each_batch_is_one_start(mapped: MappedBoard) -> None:
    """A run more or less would show in no answer, and make every figure wrong."""
    with BoardModel(requantised_copy(batch=2), mapped) as session:
        session.run(samples(5))
        assert mapped.page.starts == 3


def test_jobs_of_two_models_alternate(mapped: MappedBoard) -> None:
    """The registers of one model would be left set for the other's run."""
    with BoardModel(requantised_copy(batch=1), mapped) as one, BoardModel(requantised_copy(batch=2), mapped) as two:
        given = [(number % 2, samples(1 + number % 2, seed=number)) for number in range(12)]
        batches = [BoardBatch.of((one, two), model, x, tag=x) for model, x in given]
        for batch, answers in alternate((one, two), batches):
            assert np.array_equal(answers["y"], expected(batch.tag))


def test_the_accelerator_has_a_run_while_batches_come(mapped: MappedBoard) -> None:
    """A server's batches would be drained again and again before the next ones are packed, while the accelerator has none."""
    taken = [0]

    def source(models: tuple[BoardModel, ...]) -> Iterator[BoardBatch]:
        for number in range(9):
            taken[0] += 1
            yield BoardBatch.of(models, number % len(models), samples(1, seed=number))

    with BoardModel(requantised_copy(batch=1), mapped) as one, BoardModel(requantised_copy(batch=2), mapped) as two:
        for models in ((one,), (one, two)):
            taken[0], ahead = 0, []
            for _, _ in alternate(models, source(models)):
                ahead.append(taken[0])
            assert ahead == [min(9, number + slots_of(mapped)) for number in range(9)]


def test_an_error_is_tried_again_after_a_reset(mapped: MappedBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    """A single bad answer of the bus must cost only a retry; a lasting one must be reported with place and cause."""
    x = samples(3)
    with BoardModel(requantised_copy(batch=1), mapped, retries=1) as session:
        failures = failing(monkeypatch, type(mapped.emulator))
        assert np.array_equal(session.run(x), expected(x))
        failures[0] = 99
        with pytest.raises(RunError, match=r"stopped: read_response SLVERR on port 0 at program write \d+ of \d+, layer copy"):
            session.run(x)
        failures[0] = 0
        assert np.array_equal(session.run(x), expected(x))


def test_a_hang_says_where_and_leaves_the_accelerator_idle(mapped: MappedBoard) -> None:
    """`timed out` alone explains nothing: the message must have program counter, layer, engines, errors and traffic."""
    with BoardModel(requantised_copy(batch=1), mapped, retries=0, timeout_seconds=0.3) as session:
        mapped.page.stuck = True
        with pytest.raises(TimedOutError) as caught:
            session.run(samples(2))
        for part in ("hangs: no progress for 0.3 s", *STANDING):
            assert part in str(caught.value), str(caught.value)
        mapped.page.stuck = False
        assert not REGISTERS["STATUS"].unpack(mapped.read(offset("STATUS")))["busy"]
        assert np.array_equal(session.run(samples(1)), expected(samples(1)))


def test_a_nan_ends_the_stream_behind_the_answers_before_it(mapped: MappedBoard) -> None:
    """The batches before it are sound; the error must name the tensor, and the next run must find an idle accelerator."""
    bad = samples(1)
    bad[0, 1, 2, 3] = np.nan
    feeds = [samples(1, seed=1), samples(1, seed=2), bad, samples(1, seed=3)]
    with BoardModel(requantised_copy(batch=1), mapped) as session:
        stream = session.stream(feeds)
        for x in feeds[:2]:
            assert np.array_equal(next(stream), expected(x))
        with pytest.raises(DataError, match="tensor x holds NaN"):
            next(stream)
        assert np.array_equal(session.run(feeds[3]), expected(feeds[3]))


def test_memory_that_runs_out_ends_a_run_with_a_line(mapped: MappedBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    """A MemoryError says nothing of what to do, and a session that keeps a run under way would answer the next one with it."""
    wait = Loop.wait
    with BoardModel(requantised_copy(batch=1), mapped, retries=0) as session:
        monkeypatch.setattr(Loop, "wait", lambda self, seconds: library.MEMORY)
        with pytest.raises(RunError, match="no memory is left to pack a batch or to unpack its answer: end other programs"):
            session.run(samples(2))
        monkeypatch.setattr(Loop, "wait", wait)
        x = samples(3, seed=5)
        assert np.array_equal(session.run(x), expected(x))


def test_an_exception_in_the_middle_leaves_the_accelerator_idle(mapped: MappedBoard) -> None:
    """After Ctrl-C in a loop over images, the next run must find an accelerator that answers, and its memory."""

    def source() -> Iterator[np.ndarray]:
        yield samples(1)
        raise KeyboardInterrupt

    with BoardModel(requantised_copy(batch=1), mapped) as session:
        with pytest.raises(KeyboardInterrupt):
            list(session.stream(source()))
        assert not REGISTERS["STATUS"].unpack(mapped.read(offset("STATUS")))["busy"]
        x = samples(2)
        assert np.array_equal(session.run(x), expected(x))
        stream = session.stream(samples(1, seed=n) for n in range(9))
        next(stream)
        stream.close()
        assert np.array_equal(session.run(x), expected(x)), "a stream that is closed early gives its turn back"


def test_ctrl_c_ends_a_native_wait(mapped: MappedBoard) -> None:
    """Python sees Ctrl-C only between two calls: a wait without an end would hold it for ever."""
    with BoardModel(requantised_copy(batch=1), mapped, retries=0) as session:
        mapped.page.stuck = True
        threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt):
            session.run(samples(1))
        mapped.page.stuck = False
        assert np.array_equal(session.run(samples(1)), expected(samples(1)))


@pytest.mark.parametrize("number", [1, 2])
def test_ctrl_c_behind_the_hand_over_leaves_the_accelerator_idle(
    mapped: MappedBoard, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Python may see Ctrl-C as soon as the library has a job: the accelerator would go on in memory that is freed."""
    submit, calls = Loop.submit_arrays, itertools.count(1)

    def interrupted(self: Loop, *rest: Any) -> Any:
        submit(self, *rest)
        until(lambda: mapped.page.starts, "it was not started")
        if next(calls) == number:
            raise KeyboardInterrupt

    with BoardModel(requantised_copy(batch=1), mapped) as session:
        mapped.page.stuck = True
        monkeypatch.setattr(Loop, "submit_arrays", interrupted)
        with pytest.raises(KeyboardInterrupt):
            list(session.stream([samples(1)] * 3))
        monkeypatch.setattr(Loop, "submit_arrays", submit)
        assert not REGISTERS["STATUS"].unpack(mapped.read(offset("STATUS")))["busy"]
        mapped.page.stuck = False
        assert np.array_equal(session.run(samples(1)), expected(samples(1)))


def test_no_thread_and_no_array_is_left(mapped: MappedBoard) -> None:
    """Each stream that is left open would keep a thread and its batches until the process ends."""
    with BoardModel(requantised_copy(batch=1), mapped) as session:
        session.run(samples(1))
        before = threads()  # that of the session is among them
        for number in range(20):
            stream = session.stream(samples(1, seed=n) for n in range(3))
            next(stream)
            if number % 2:
                list(stream)
            del stream
            gc.collect()
        assert threads() == before


def threads() -> int:
    """The threads of this process, those that Python does not know included."""
    return len(list(Path("/proc/self/task").iterdir()))


def test_the_interrupts_file_is_open_while_the_session_is(mapped: MappedBoard, tmp_path: Path) -> None:
    """The loop would poll although there is an interrupt; a session that is closed must give the file back."""
    device = tmp_path / "uio0"
    os.mkfifo(device)  # which is readable as soon as it is armed
    mapped.interrupt = Interrupt(device)

    def opened() -> int:
        return sum(os.path.realpath(file) == str(device) for file in Path("/proc/self/fd").iterdir())

    with BoardModel(requantised_copy(batch=1), mapped) as session:
        assert np.array_equal(session.run(samples(3)), expected(samples(3)))
        assert opened() == 1
    assert opened() == 0
