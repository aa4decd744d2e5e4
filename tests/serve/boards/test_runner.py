"""What a worker runs: exact answers at the pace of the accelerator, and faults when they are asked for."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnna.host.model.detector import Settings
from cnna.serve.boards.board_spec import BoardSpec
from cnna.serve.boards.runner import REMEMBERED, Emulator, FaultyRunner, Paced, Rtl, runner_for
from cnna.spec.artifact import load
from cnna.spec.errors import DataError, RunError

KEY = "digits/1/tiny-b4"


class Clock:
    """A time that passes only in sleep."""

    def __init__(self) -> None:
        self.now = 100.0

    def read(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def artifact(published: Path) -> str:
    return str(published / "digits" / "1" / "tiny-b4.cnna")


def test_a_paced_board_takes_the_predicted_clocks(artifact: str, images: NDArray[np.float32], answers: NDArray[np.float32]) -> None:
    """Figures of the engine would depend on the computer. A batch that came while another ran begins when that one ends."""
    clock = Clock()
    board = Paced(BoardSpec("a", "paced", mhz=100), clock.read, clock.sleep)
    board.load(KEY, artifact, {"image": images[:2]})
    assert clock.now == 100.0
    seconds = load(artifact).predicted_clocks() / 100e6
    for number in range(3):  # all were received at once
        y = board.run(KEY, {"image": images[2 * number : 2 * number + 4]}, received=100.0)
        assert clock.now == pytest.approx(100.0 + (number + 1) * seconds)
        assert np.array_equal(y["logits"], answers[2 * number : 2 * number + 4])


def test_a_paced_board_that_is_late_makes_up_no_time(artifact: str, images: NDArray[np.float32]) -> None:
    """After a slow answer, later ones would come quicker than the accelerator gives them."""
    clock = Clock()
    board = Paced(BoardSpec("a", "paced"), clock.read, clock.sleep)
    board.load(KEY, artifact, {"image": images[:4]})
    clock.now = 200.0
    board.run(KEY, {"image": images[:4]}, received=100.0)
    assert clock.now == 200.0
    board.run(KEY, {"image": images[:4]}, received=100.0)
    assert clock.now == pytest.approx(200.0 + load(artifact).predicted_clocks() / 300e6)


def test_a_paced_board_computes_a_sample_once(artifact: str, images: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be no quicker than the emulator; what it remembers must have an end."""
    clock = Clock()
    board = Paced(BoardSpec("a", "paced"), clock.read, clock.sleep)
    board.load(KEY, artifact, {})
    computed: list[int] = []
    whole = board.computed

    def counted(key: str, inputs: dict[str, NDArray[np.float32]], wanted: Settings) -> dict[str, NDArray[np.float32]]:
        computed.append(len(inputs["image"]))
        return whole(key, inputs, wanted)

    monkeypatch.setattr(board, "computed", counted)
    for _ in range(2):
        board.run(KEY, {"image": images[[0, 1, 0]]}, 0.0)
    board.run(KEY, {"image": images[1:4]}, 0.0)
    assert computed == [3, 2]
    assert REMEMBERED >= 4096


def test_a_wrong_answer_differs_in_a_bit(artifact: str, images: NDArray[np.float32], answers: NDArray[np.float32]) -> None:
    """A fault that changes nothing would prove that golden answers find it."""
    board = runner_for(BoardSpec("a", wrong=2))
    board.load(KEY, artifact, {})
    found = [board.run(KEY, {"image": images[:4]}, 0.0)["logits"] for _ in range(3)]
    assert [np.array_equal(y, answers[:4]) for y in found] == [True, False, True]
    assert (found[1] != answers[:4]).sum() == 1


@pytest.mark.parametrize("kind", ["emulator", "paced", "rtl"])
def test_pieces_on_the_cpu_have_one_thread(kind: str, artifact: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every worker would start as many threads as there are processors, which wait for work by spinning."""
    seen: list[Any] = []
    monkeypatch.setattr("cnna.serve.boards.runner.InferenceSession", lambda path, device, **options: seen.append(options))
    {"emulator": Emulator, "paced": Paced, "rtl": Rtl}[kind](BoardSpec("a", kind)).opened(load(artifact))
    assert seen[0]["cpu_threads"] == 1


def test_what_is_not_loaded_is_an_error(artifact: str, images: NDArray[np.float32]) -> None:
    """A worker that has restarted must not answer with a model that it does not have."""
    for kind in ("emulator", "paced"):
        board = runner_for(BoardSpec("a", kind))
        assert isinstance(board, FaultyRunner)
        board.load(KEY, artifact, {})
        with pytest.raises(DataError):
            board.run(KEY, {"other": images[:1]}, 0.0)
        board.unload(KEY)
        with pytest.raises(RunError, match="is not loaded"):
            board.run(KEY, {"image": images[:1]}, 0.0)
