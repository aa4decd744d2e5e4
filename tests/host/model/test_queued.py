"""Runs that wait in the accelerator's queue, from Python: on the boards that play programs beside the host."""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cnna.host.board.board_device import BoardDevice
from cnna.host.board.turn import LocalTurn
from cnna.host.model.alternate import BoardBatch, alternate
from cnna.host.model.board_model import BoardModel
from cnna.sim.board.board import open_board
from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.spec.config import preset
from cnna.spec.errors import RunError
from cnna.spec.regmap import REGISTERS, offset

from ..emulated_board import EmulatedBoard, ServedBoard, StreamedBoard
from ..hand_made import expected, failing, requantised_copy, samples

CTRL = REGISTERS["CTRL"]


@pytest.fixture(params=["ps", "pl"])
def served(request: pytest.FixtureRequest) -> Iterator[BoardDevice]:
    """A board of each variant, on which nothing is left."""
    made = StreamedBoard() if request.param == "pl" else ServedBoard(open_board(preset("tiny"), "ps", "emulator", 1 << 22))
    yield made
    assert not made.buffers


def asked(board: BoardDevice, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is written to CTRL from now on: the pulses."""
    written, write = list[str](), board.mmio.write

    def noted(at: int, value: int) -> None:
        if at == offset("CTRL"):
            written.extend(name for name in ("start", "queue", "soft_reset") if CTRL.unpack(value)[name])
        write(at, value)

    monkeypatch.setattr(board.mmio, "write", noted)
    return written


def test_runs_of_a_stream_are_queued_behind_one_start(served: BoardDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """The accelerator would wait for the host between two runs; or an answer, or a count of clocks, would be another run's."""
    with BoardModel(requantised_copy(batch=2), served) as session:
        written = asked(served, monkeypatch)
        feeds = [samples(1 + number % 2, seed=number) for number in range(9)]
        for x, answer in zip(feeds, session.stream(feeds), strict=True):
            assert np.array_equal(answer, expected(x))
        assert written == ["start", *["queue"] * 8]
        assert not served.read(offset("STATUS"))
        written.clear()
        session.run(samples(1))
        assert written == ["start"], "a single run is started"


def test_a_fault_in_the_middle_runs_again_what_it_dropped(served: BoardDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that were dropped would never end; those that had ended would be answered twice."""
    failures = failing(monkeypatch, EmulatorDevice)
    failures[0] = 0

    def source() -> Iterator[np.ndarray]:
        for number in range(12):
            failures[0] += number in (5, 6, 9)
            yield samples(1, seed=number)

    with BoardModel(requantised_copy(batch=1), served, retries=2) as session:
        written = asked(served, monkeypatch)
        answers = list(session.stream(source()))
        assert len(answers) == 12
        assert all(np.array_equal(answer, expected(samples(1, seed=number))) for number, answer in enumerate(answers))
        assert written.count("soft_reset") >= 2
        failures[0] = 99
        with pytest.raises(RunError, match=r"stopped: read_response SLVERR on port 0 at program write \d+ of \d+, layer copy"):
            list(session.stream([samples(1)] * 5))
        failures[0] = 0
        assert np.array_equal(session.run(samples(3)), expected(samples(3)))


def test_starts_after_an_error_are_dropped_and_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host has not seen the error when it queues: those runs would never end, or be taken for the one that failed."""
    board, dropped = EmulatedBoard(), list[int]()  # which plays a program within the host's write
    write, failures = board.mmio.write, failing(monkeypatch, EmulatorDevice)
    failures[0] = 0

    def noted(at: int, value: int) -> None:
        if at == offset("CTRL") and CTRL.unpack(value)["soft_reset"]:
            dropped.append(REGISTERS["QUEUE"].unpack(board.read(offset("QUEUE")))["dropped"])
        write(at, value)

    with BoardModel(requantised_copy(batch=1), board) as session:
        monkeypatch.setattr(board.mmio, "write", noted)
        failures[0] = 1
        answers = list(session.stream(samples(1, seed=number) for number in range(6)))
        assert all(np.array_equal(answer, expected(samples(1, seed=number))) for number, answer in enumerate(answers))
        assert (len(answers), dropped) == (6, [board.places])


def test_runs_of_two_models_are_queued_behind_each_other(served: BoardDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queued start would take the registers of the model before it."""
    with BoardModel(requantised_copy(batch=1), served) as one, BoardModel(requantised_copy(batch=2), served) as two:
        written = asked(served, monkeypatch)
        given = [(number % 2, samples(1 + number % 2, seed=number)) for number in range(8)]
        taken, ahead = [0], []

        def source() -> Iterator[BoardBatch]:
            for model, x in given:
                taken[0] += 1
                yield BoardBatch.of((one, two), model, x, tag=x)

        for batch, answers in alternate((one, two), source()):
            ahead.append(taken[0])
            assert np.array_equal(answers["y"], expected(batch.tag))
        assert written == ["start", *["queue"] * 7]
        assert ahead == [min(8, number + 1 + served.places) for number in range(8)], "one runs, and the others wait"


def test_a_run_from_the_queue_is_watched_by_its_own_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the run before it stand still: a long run would be taken for one that hangs."""
    board, live = EmulatedBoard(), [False]
    read, write = board.mmio.read, board.mmio.write
    began = float("inf")

    def noted(at: int, value: int) -> None:
        nonlocal began
        if at == offset("CTRL"):
            if CTRL.unpack(value)["queue"]:
                began = time.monotonic()  # from now on it runs for a second
            live[0] = bool(CTRL.unpack(value)["live"])
        write(at, value)

    def seen(at: int) -> int:
        late = 0 <= time.monotonic() - began < 1
        if at == offset("FINISHED") and late:
            return int(read(at)) - 1
        return int(time.monotonic() * 1000) & 0xFFFF if at == offset("CYCLES") and late and live[0] else int(read(at))

    with BoardModel(requantised_copy(batch=1), board, retries=0, timeout_seconds=0.4) as session:
        monkeypatch.setattr(board.mmio, "write", noted)
        monkeypatch.setattr(board.mmio, "read", seen)
        assert len(list(session.stream(samples(1, seed=number) for number in range(2)))) == 2


@pytest.mark.parametrize("remote", [True, False])
def test_no_run_is_queued_over_a_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, remote: bool) -> None:
    """Another process may take the turn of one that cannot be reached: its queued runs would write to that one's memory."""
    monkeypatch.setattr("cnna.host.board.board_device._is_remote", lambda device: remote)
    monkeypatch.setattr("cnna.host.board.board_device.turn_at", lambda device, base: LocalTurn(tmp_path / f"{base:x}.turn"))
    board = EmulatedBoard()
    with BoardModel(requantised_copy(batch=1), board) as session:
        written = asked(board, monkeypatch)
        list(session.stream(samples(1, seed=number) for number in range(4)))
        assert written.count("queue") == (0 if remote else 3)
