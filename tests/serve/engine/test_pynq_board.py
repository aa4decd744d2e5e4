"""Boards of the kind `pynq`, through the stock pynq package and a virtual board: answers, and causes in the driver's words."""

import fcntl
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnna.host.board.remote_turn import RemoteTurn
from cnna.serve import Engine
from cnna.serve.boards.limits import Limits
from cnna.serve.engine.board import EngineBoard
from cnna.sim.board.board import VirtualBoard, open_board
from cnna.sim.board.server import Server
from cnna.spec.config import preset
from cnna.spec.errors import LateError

from ...sim.board import stock
from ...sim.board.served import MEMORY_BYTES, serving
from ...waiting import PATIENCE_SECONDS, until

Images = NDArray[np.float32]
ONCE = Limits(hang_seconds=60.0, pause_seconds=(3600.0, 3600.0))
QUICK = Limits(hang_seconds=60.0, pause_seconds=(0.0, 0.0))


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """pynq keeps the last design's metadata in a file beside itself: other tests with stock pynq must wait."""
    with stock.LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="module")
def overlay(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """cnna.bit of `tiny`, beside its .hwh."""
    return stock.images(tmp_path_factory.mktemp("overlay"))


@pytest.fixture
def hasty(repository: Path) -> Path:
    """A repository of one artifact."""
    for batch in (4, 8):
        (repository / "digits" / "1" / f"tiny-b{batch}.cnna").unlink()
    return repository


class Turns:
    """The files of the turn on a virtual board, as another client reads and writes them."""

    def __init__(self, board: VirtualBoard) -> None:
        self.files, self.path = board.files, f"/tmp/cnna-{board.design.registers()[0].base:x}.lease"
        self.read_file, self.write_file = board.files.read, board.files.write

    def exists_file(self, path: str) -> SimpleNamespace:
        return SimpleNamespace(exists=self.files.exists(path))

    def free(self) -> bool:
        """Whether nobody has the turn."""
        there = self.files.exists(f"{self.path}.given")
        return there and len({json.loads(self.files.read(path))["turn"] for path in (self.path, f"{self.path}.given")}) == 1


def asked(engine: Engine, images: Images, model: str, counts: list[int]) -> list[Any]:
    return [(engine.submit(model, {"image": images[at : at + count]}), at, count) for at, count in enumerate(counts)]


def check(requests: list[Any], answers: Images) -> None:
    for future, at, count in requests:
        assert np.array_equal(future.result(PATIENCE_SECONDS).outputs["logits"], answers[at : at + count])


def one(engine: Engine) -> EngineBoard:
    """The engine's board."""
    (board,) = engine.core.boards
    return board


def test_two_models_on_one_board(repository: Path, overlay: Path, images: Images, answers: Images, address: str) -> None:
    """Batches would be mixed up between models or slots; an idle server would keep the board from others; a board that was reset
    would not come back, or without a test.
    """
    (repository / "digits" / "1" / "tiny-b8.cnna").unlink()
    (repository / "again").symlink_to(repository / "digits")
    events: list[str] = []
    with (
        serving(address) as served,
        Engine(
            repository, [f"p=pynq:{address},overlay={overlay}"], QUICK, lambda level, event, **more: events.append(event)
        ) as engine,
    ):
        turns, board = Turns(served), one(engine)
        check(
            [each for _ in range(4) for name in ("digits", "again") for each in asked(engine, images, name, [1, 4, 2, 8])], answers
        )
        assert (board.life.resets, board.state) == (0, "ready")
        until(lambda: board.watts, "the board shows no power")
        assert (board.watts, board.celsius) == (6.75, pytest.approx(42.0, abs=0.1))
        engine.unload("again")
        check(asked(engine, images, "digits", [3, 1]), answers)
        until(turns.free, "an idle server keeps the turn")
        engine.of_loop(board.reset)
        until(lambda: board.life.resets and board.state == "ready", "the board does not come back")
        assert board.loaded == ["digits/1/tiny-b1", "digits/1/tiny-b4"]
        check(asked(engine, images, "digits", [5]), answers)
    assert turns.free(), "a server that ends in order gives the turn back at once"
    assert events.count("board ready") == 2


def test_a_turn_that_others_have_is_said(hasty: Path, overlay: Path, images: Images, answers: Images, address: str) -> None:
    """An operator would be told of a hang, and look for it on the board."""
    with serving(address) as served:
        turns = Turns(served)
        with Engine(hasty, [f"p=pynq:{address},overlay={overlay},turn_seconds=0.5"], ONCE) as engine:
            check(asked(engine, images, "digits", [1]), answers)
            until(turns.free, "an idle server keeps the turn")
            other = RemoteTurn(turns, turns.path)
            assert other.take("a notebook of somebody")
            with pytest.raises(LateError, match="digits"):
                engine.infer("digits", {"image": images[:1]}, timeout_us=2_000_000)
            until(lambda: one(engine).state == "resting", "the board goes on")
            assert one(engine).watts is one(engine).celsius is None, "of a board that cannot be read"
            assert (
                one(engine).life.cause
                == "the accelerator was busy for 0.5 s: a notebook of somebody has it; wait for it, or end it"
            )
            other.give()


def test_a_board_that_is_gone_is_said(hasty: Path, overlay: Path, images: Images, answers: Images, address: str) -> None:
    """An operator would not know whether to look at the network, the board or the model."""
    with (
        closing(open_board(preset("tiny"), "ps", "emulator", MEMORY_BYTES)) as made,
        Server(made, address) as server,
        Engine(hasty, [f"p=pynq:{address},overlay={overlay}"], ONCE) as engine,
    ):
        check(asked(engine, images, "digits", [1]), answers)
        server.close()
        with pytest.raises(LateError, match="digits"):
            engine.infer("digits", {"image": images[:1]}, timeout_us=2_000_000)
        until(lambda: one(engine).state == "resting", "the board goes on")
        assert "the board cannot be reached: " in one(engine).life.cause or "the board failed at " in one(engine).life.cause


def test_an_overlay_of_another_accelerator_is_said(hasty: Path, tmp_path: Path, address: str) -> None:
    """The board would stay away without a reason."""
    other = stock.images(tmp_path / "other", "zcu102")
    with serving(address), Engine(hasty, [f"p=pynq:{address},overlay={other}"], ONCE) as engine:
        assert one(engine).state == "resting"
        assert "is not this board's image" in one(engine).life.cause
        assert not engine.core.ready


def test_the_front_never_imports_pynq(hasty: Path) -> None:
    """It would need pynq's own versions of packages, and take its time and its warnings along."""
    code = """
import sys
import cnna.serve.grpc.front, cnna.serve.http.front
from cnna.serve import Engine
with Engine(sys.argv[1], ["p=pynq:127.0.0.1,overlay=/no/such/cnna.bit"]) as engine:
    print(engine.core.boards[0].life.cause)
assert "pynq" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(hasty)], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert (done.returncode, done.stdout) == (0, "/no/such/cnna.bit: no such file or directory\n"), done.stderr
