"""A worker process: payloads arrive whole, errors are answers, and its death is noticed."""

import asyncio
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnna.serve.boards.board_spec import BoardSpec
from cnna.serve.boards.messages import Notice
from cnna.serve.boards.process import LostError, WorkerProcess
from cnna.serve.boards.slot import Slot
from cnna.spec.errors import DataError, RunError

from ...waiting import PATIENCE_SECONDS, until

Within = Callable[[Coroutine[Any, Any, None]], None]
BYTES = [4 * 40]


def test_a_slot_holds_arrays_in_parts() -> None:
    """Samples of several requests would be mixed up, or written over the outputs."""
    slot = Slot(os.memfd_create("test"))
    slot.fit(100_000)
    parts = {"a": [np.arange(6.0).reshape(2, 3), np.arange(3.0).reshape(1, 3)], "b": [np.array([[True], [False]])]}
    found = slot.read(json.loads(json.dumps(slot.write(parts, 64))))
    assert np.array_equal(found["a"], np.concatenate(parts["a"]))
    assert np.array_equal(found["b"], parts["b"][0])
    before = found["a"].copy()
    slot.fit(10_000_000)
    assert np.array_equal(found["a"], before)
    slot.close()


def test_a_worker_answers_fails_and_dies(
    published: Path, images: NDArray[np.float32], answers: NDArray[np.float32], within: Within
) -> None:
    """An answer of another batch, an error that ends the process, or a death that nobody hears of would lose requests."""

    async def life() -> None:
        worker = WorkerProcess(BoardSpec("a"))
        await worker.start()
        await worker.load("k", str(published / "digits" / "1" / "tiny-b4.cnna"), None)
        one = worker.run("k", worker.slots[0], {"image": [images[:1], images[1:4]]}, BYTES)
        two = worker.run("k", worker.slots[1], {"image": [images[4:6]]}, BYTES)
        assert np.array_equal((await one).outputs["logits"], answers[:4])
        assert np.array_equal((await two).outputs["logits"], answers[4:6])
        with pytest.raises(DataError):
            await worker.run("k", worker.slots[0], {"image": [images[:1, :, :5]]}, BYTES)
        assert np.array_equal(
            (await worker.run("k", worker.slots[0], {"image": [images[:1]]}, BYTES)).outputs["logits"], answers[:1]
        )
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGSTOP)  # it has the commands, and does not answer
        running = [worker.run("k", slot, {"image": [images[:1]]}, BYTES) for slot in worker.slots[:2]]
        os.kill(worker.pid, signal.SIGKILL)
        lost = await asyncio.gather(*running, return_exceptions=True)
        assert [(type(error), error.first) for error in lost if isinstance(error, LostError)] == [
            (LostError, True),
            (LostError, False),
        ]
        assert worker.gone.is_set()
        assert worker.cause == "its worker died (signal 9)"
        with pytest.raises(LostError, match="board a: its worker died"):
            await worker.unload("k")
        with pytest.raises(LostError, match="board a: its worker died"):  # its slots are closed
            await worker.run("k", worker.slots[0], {"image": [images[:1]]}, BYTES)
        await worker.close()

    within(life())


def is_stopped(process: int) -> bool:
    """Whether SIGSTOP has reached a process."""
    return Path(f"/proc/{process}/stat").read_text().split()[2] == "T"


def test_a_worker_ends_in_order(published: Path, within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """A board's turn would stay taken after the server; what does not end must not be waited for."""

    async def life() -> None:
        for stopped in (False, True):
            worker = WorkerProcess(BoardSpec("a"))
            await worker.start()
            assert worker.pid is not None
            monkeypatch.setattr("cnna.serve.boards.process.END_SECONDS", 0.1 if stopped else PATIENCE_SECONDS)
            if stopped:
                os.kill(worker.pid, signal.SIGSTOP)
                until(partial(is_stopped, worker.pid), "it goes on")
            running = worker.load("k", str(published / "digits" / "1" / "tiny-b4.cnna"), None)
            await worker.close("a reason")
            assert worker.exit_code == (-signal.SIGKILL if stopped else 0)
            with pytest.raises(LostError, match="board a: a reason"):
                await running

    within(life())


ODD_WORKER = """#!{python} -S
import json, socket, sys
control = socket.socket(fileno=json.loads(sys.argv[3])["control"])
first, *others = [json.dumps(answer).encode() + b"\\n" for answer in {answers}]
control.sendall(first)
control.recv(1 << 16)
control.sendall(b"".join(others))
control.recv(1)
"""
DONE = {"seconds": 0, "outputs": {}}
WHOLE_MEMORY = 1 << 60


@pytest.fixture
def odd_worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Coroutine[Any, Any, None]]:
    """Starts a process that says the first of its answers at once, and the others after the first command."""

    async def start(worker: WorkerProcess, *answers: dict[str, Any]) -> None:
        program = tmp_path / "worker"
        program.write_text(ODD_WORKER.format(python=sys.executable, answers=answers))
        program.chmod(0o700)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", str(program))
            await worker.start()

    return start


def test_a_slot_may_hold_nothing() -> None:
    """A batch without a byte, such as a request for no columns, would take the board's slot with it."""
    slot = Slot(os.memfd_create("test"))
    slot.fit(0)
    assert slot.read(slot.write({"a": [np.zeros((2, 0), np.float32)]}))["a"].shape == (2, 0)
    slot.close()


@pytest.mark.parametrize("answer", [{"outputs": [["y", "<f4", [4096, 4096], 64]], "seconds": 0}, {"outputs": []}, {"error": "?"}])
def test_an_answer_that_cannot_be_read(
    within: Within, odd_worker: Callable[..., Coroutine[Any, Any, None]], answer: dict[str, Any]
) -> None:
    """Its batch would never end, and each later worker of the board be killed since it has no answer."""

    async def life() -> None:
        worker = WorkerProcess(BoardSpec("a"))
        await odd_worker(worker, {"job": 0, **DONE}, {"job": 1, **answer})
        with pytest.raises(LostError, match="board a: its worker's answers cannot be read") as lost:
            await worker.run("k", worker.slots[0], {"image": [np.zeros((1, 4), np.float32)]}, BYTES)
        assert lost.value.first, "a batch that has this end each time must not go round for ever"
        await worker.close()

    within(life())


def test_a_worker_that_is_killed_while_it_starts(within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator's reset in this moment would have to wait for two minutes."""

    async def life() -> None:
        worker, connect = WorkerProcess(BoardSpec("a")), asyncio.open_connection

        async def connected(**given: Any) -> Any:
            found = await connect(**given)
            worker.kill("an operator reset the board")
            return found

        monkeypatch.setattr(asyncio, "open_connection", connected)
        with pytest.raises(LostError, match="board a: an operator reset the board"):
            await worker.start()
        await worker.close()

    within(life())


def test_a_batch_for_which_there_is_no_memory(within: Within, odd_worker: Callable[..., Coroutine[Any, Any, None]]) -> None:
    """It would be lost: neither answered nor sent to another board."""

    async def life() -> None:
        worker, image = WorkerProcess(BoardSpec("a")), {"image": [np.zeros((1, 4), np.float32)]}
        await odd_worker(worker, {"job": 0, **DONE}, {"job": 1, **DONE, "bytes": WHOLE_MEMORY})
        with pytest.raises(RunError, match=r"board a: no memory for a batch of [\d,]+ bytes: Cannot allocate memory"):
            await worker.run("k", worker.slots[0], image, [WHOLE_MEMORY])
        assert not worker.gone.is_set()
        with pytest.raises(LostError, match=r"board a: no memory for an answer of [\d,]+ bytes: Cannot allocate memory"):
            await worker.run("k", worker.slots[0], image, BYTES)
        await worker.close()

    within(life())


def test_what_comes_behind_the_end_is_not_heard(within: Within, odd_worker: Callable[..., Coroutine[Any, Any, None]]) -> None:
    """An answer that had come before its worker was killed, and was read after that, would end in a traceback."""
    heard: list[Notice] = []
    failed: list[dict[str, Any]] = []

    async def life() -> None:
        def told(message: Notice) -> None:
            heard.append(message)
            worker.kill("too hot")

        worker = WorkerProcess(BoardSpec("a"), told)
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: failed.append(context))
        await odd_worker(worker, {"job": 0, **DONE}, {"said": "hot"}, {"job": 1, **DONE})
        with pytest.raises(LostError, match="board a: too hot"):
            await worker.load("k", "m.cnna", None)
        await worker.close()

    within(life())
    gc.collect()  # then an error that nobody has asked for is told
    assert heard == [{"said": "hot"}]
    assert not failed, "the task that reads has ended in an error"


def test_a_worker_that_stands_still_is_not_starved(within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """A board that hangs would get more and more time; or one that waits for a processor would be killed for it."""

    async def life() -> None:
        worker = WorkerProcess(BoardSpec("a"))
        await worker.start()
        assert worker.pid is not None
        monkeypatch.setattr("cnna.serve.boards.process.END_SECONDS", 0.1)
        os.kill(worker.pid, signal.SIGSTOP)
        state = Path(f"/proc/{worker.pid}/stat")
        until(lambda: state.read_text().split()[2] == "T", "it goes on")
        since = worker.scheduled()
        assert since is not None
        assert since[0] > 0
        assert worker.starved(since, 1000.0) == 0.0
        assert worker.starved((since[0] - 1.0, since[1] - 2.0), 1000.0) == pytest.approx(2.0), "waits that have ended"
        with monkeypatch.context() as patch:
            patch.setattr(WorkerProcess, "pid", os.getpid())  # this one runs: it is in the state that waiting ones have, too
            assert worker.starved((since[0] - 1.0, since[1]), 1000.0) == pytest.approx(999.0), "it may wait still"
        await worker.close()
        assert worker.scheduled() is None
        assert worker.starved(since, 1000.0) == 0.0

    within(life())


@pytest.mark.parametrize("heard", [False, True])
def test_no_worker_outlives_its_front(heard: bool) -> None:
    """A front that was killed before it had read an answer would leave its workers behind, with all their memory, for ever."""
    ours, theirs = socket.socketpair()
    given = {"control": theirs.fileno(), "slots": [], "board": BoardSpec("a").options()}
    line = [sys.executable, "-m", "cnna.serve.boards.worker", json.dumps(given)]
    with theirs, subprocess.Popen(line, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE) as process:
        theirs.close()
        select.select([ours], [], [])
        if heard:
            ours.recv(1 << 16)
        ours.close()
        try:
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            process.kill()
        assert process.stderr is not None
        assert not process.stderr.read(), "whoever reads the log has gone too, or sees an error that is none"
