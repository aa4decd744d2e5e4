"""The engine with real workers: answers equal the reference, and killed, hung and wrong boards lose nothing."""

import asyncio
import os
import shutil
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from cnna.compiler.compile import compile_model
from cnna.host.selftest.selftest_network import ANSWERS, path_of, pictures
from cnna.serve import Engine
from cnna.serve.boards.limits import Limits
from cnna.serve.boards.process import Answer, WorkerProcess
from cnna.serve.boards.slot import Slot
from cnna.serve.engine.board import EngineBoard
from cnna.serve.engine.core import Core
from cnna.serve.requests.request import Result
from cnna.spec.artifact import save
from cnna.spec.config import preset
from cnna.spec.errors import BusyError, RunError, UnknownError

from ..waiting import until

PATIENT = Limits(hang_seconds=60.0, pause_seconds=(0.0, 0.0), failures=1000)
HASTY = Limits(hang_seconds=0.5, pause_seconds=(0.0, 0.0), failures=1000)
Images = NDArray[np.float32]


def asked(engine: Engine, images: Images, count: int) -> list[Any]:
    """`count` requests of one to three samples, all open at once."""
    parts = [images[number % 20 : number % 20 + number % 3 + 1] for number in range(count)]
    return [(engine.submit("digits", {"image": part}), number % 20, len(part)) for number, part in enumerate(parts)]


def check(requests: list[Any], answers: Images) -> None:
    wait([future for future, _, _ in requests])
    for future, first, count in requests:
        assert np.array_equal(future.result().outputs["logits"], answers[first : first + count])


def test_one_file_answers_pictures() -> None:
    """The first answer needs no repository; pictures go through the preprocessing that the model stores."""
    with Engine(path_of("tiny")) as engine:
        result = engine.infer("tiny", {"picture": pictures()})
        with pytest.raises(UnknownError, match="there is no model 'digits'; there are tiny"):
            engine.infer("digits", {})
    with np.load(ANSWERS) as wanted:
        assert np.array_equal(result.outputs["conv11"], wanted["y"])
    assert result.version == "1"


def test_killed_and_slow_boards_lose_no_request(published: Path, images: Images, answers: Images) -> None:
    """A request would be lost with a worker, or get another one's answer."""
    said: list[str] = []
    limits, boards = PATIENT, ["a=paced,kill=9,mhz=100", "b=paced,slow=2"]
    with Engine(published, boards, limits, log=lambda level, event, **more: said.append(event)) as engine:
        requests = asked(engine, images, 60)
        check(requests, answers)
        board = engine.core.board("a")
        assert board is not None
        assert board.spec.kill == 9
    assert "board failed" in said
    assert "batch again" in said


def test_the_only_board_answers_after_it_has_stopped(
    published: Path, images: Images, answers: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch would go back to the board in the moment in which its worker was ended, and be lost."""
    run, ill = WorkerProcess.run, iter([True])

    def stopped(self: WorkerProcess, key: str, slot: Slot, *given: Any) -> "asyncio.Future[Answer]":
        future = run(self, key, slot, *given)
        if slot is not self.slots[-1] and next(ill, False):  # the last one is for golden answers
            future = asyncio.get_running_loop().create_future()
            future.set_exception(RunError("the accelerator stopped: AXI_READ"))
        return future

    monkeypatch.setattr(WorkerProcess, "run", stopped)
    said: list[str] = []
    with Engine(published, ["a=emulator"], PATIENT, log=lambda level, event, **more: said.append(str(more.get("cause")))) as engine:
        check(asked(engine, images, 8), answers)
    assert "the accelerator stopped: AXI_READ" in said


def test_a_board_that_hangs_is_noticed_and_comes_back(published: Path, images: Images, answers: Images) -> None:
    """Its requests would wait for ever. With one board, they wait for its return."""
    said: list[str] = []
    boards = ["a=paced,hang=10"]
    with Engine(published, boards, HASTY, log=lambda level, event, **more: said.append(str(more.get("cause")))) as engine:
        check(asked(engine, images, 8), answers)
    assert any("it hangs: no answer in" in line for line in said)


def test_a_board_with_wrong_answers_never_serves(repository: Path, images: Images, answers: Images) -> None:
    """Golden answers are there for this. Where another board agrees with them, the version is not at fault."""
    limits = Limits(hang_seconds=60.0, pause_seconds=(60.0, 60.0))
    with Engine(repository, ["good=emulator", "bad=emulator,wrong=1"], limits) as engine:
        check(asked(engine, images, 6), answers)
        served = engine.core.catalogue.model("digits").default
        assert served is not None
        assert served.state == "READY"
        bad = engine.core.board("bad")
        assert bad is not None
        assert bad.life.batches == 0
    differ = pytest.raises(BusyError, match="golden answers differ: output logits, element")
    with Engine(repository, ["bad=emulator,wrong=1"], limits) as engine, differ:
        engine.infer("digits", {"image": images[:1]})


def test_versions_switch_and_one_bad_one_changes_nothing(
    repository: Path, images: Images, answers: Images, edited: Callable[[Path], None]
) -> None:
    """A bad version would take a good one down, or answers would come from a version that they do not name."""
    model = repository / "digits"
    with Engine(repository, limits=PATIENT) as engine:
        shutil.copytree(model / "1", model / "2")
        edited(model / "2" / "golden.npz")
        engine.load("digits")
        versions = engine.core.catalogue.model("digits").versions
        assert versions["2"].state == "UNAVAILABLE"
        assert "golden answers differ" in versions["2"].reason
        assert engine.infer("digits", {"image": images[:1]}).version == "1"
        shutil.copytree(model / "1", model / "3")
        requests = asked(engine, images, 12)
        engine.load("digits")
        requests += asked(engine, images, 6)
        check(requests, answers)
        assert [future.result().version for future, _, _ in requests] == ["1"] * 12 + ["3"] * 6
        assert engine.infer("digits", {"image": images[:1]}, "1").version == "1"  # it stays, for a rollback
        (model / "model.yaml").write_text("versions: [1]\n")
        engine.load("digits")
        assert engine.infer("digits", {"image": images[:1]}).version == "1"


def test_a_model_that_was_unloaded_can_be_loaded_at_once(published: Path, images: Images, answers: Images) -> None:
    """The load would be forgotten while the unload still drains; the server must not be unready for an operator's wish."""
    with Engine(published, limits=PATIENT) as engine:
        requests = asked(engine, images, 6)
        engine.unload("digits")
        assert engine.core.ready
        with pytest.raises(BusyError, match="unloaded by an operator"):
            engine.infer("digits", {"image": images[:1]})
        engine.load("digits")
        check([*requests, *asked(engine, images, 2)], answers)


@pytest.fixture
def edited() -> Callable[[Path], None]:
    """Changes one golden answer in its lowest bit."""

    def edit(path: Path) -> None:
        with np.load(path) as file:
            members = {name: np.asarray(file[name]) for name in file.files}
        members["output.logits"].view(np.int32)[0, 0] ^= 1
        np.savez(path, **members)

    return edit


def test_a_version_whose_files_are_gone_keeps_no_board_from_the_others(repository: Path, images: Images, answers: Images) -> None:
    """Whoever clears away one version would take every board out at its next failure, and all models with it."""
    shutil.copytree(repository / "digits", repository / "other")
    with Engine(repository, ["a=emulator"], Limits(pause_seconds=(0.01, 0.1))) as engine:
        shutil.rmtree(repository / "other" / "1")
        pid = engine.core.boards[0].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        result = engine.infer("digits", {"image": images[:3]})
        assert np.array_equal(result.outputs["logits"], answers[:3])
        with pytest.raises(BusyError, match=r"other/1.*no such file"):
            engine.infer("other", {"image": images[:3]})


def test_a_model_that_cannot_be_read_keeps_no_other_back(repository: Path, tmp_path: Path, images: Images, answers: Images) -> None:
    """The server would not start, or not say what is wrong with it."""
    (repository / "away").symlink_to(tmp_path)
    (repository / "empty").mkdir()
    with Engine(repository, limits=PATIENT) as engine:
        assert np.array_equal(engine.infer("digits", {"image": images[:3]}).outputs["logits"], answers[:3])
        for model, said in (("away", "out of the repository"), ("empty", "empty: no versions; cnna publish makes one")):
            with pytest.raises(BusyError, match=f"model {model} has no version that is ready: .*{said}"):
                engine.infer(model, {"image": images[:3]})


def test_a_version_whose_answers_have_changed_takes_no_board_away(
    repository: Path, opposite: onnx.ModelProto, images: Images, answers: Images
) -> None:
    """Whoever copies another network over a version would have every board out after its next failure, and all models with it."""
    model = repository / "digits"
    shutil.copytree(model / "1", model / "2")
    for batch in (4, 8):
        (model / "2" / f"tiny-b{batch}.cnna").unlink()
    (model / "model.yaml").write_text("versions: all\n")
    with Engine(repository, ["a=emulator", "b=emulator"], PATIENT) as engine:
        assert engine.infer("digits", {"image": images[:1]}).version == "2"
        save(compile_model(opposite, preset("tiny"), 1), model / "2" / "tiny-b1.cnna")
        for board in engine.core.boards:
            assert board.pid is not None
            os.kill(board.pid, signal.SIGKILL)
        version = engine.core.catalogue.model("digits").versions["2"]
        until(lambda: version.state == "UNAVAILABLE", "nobody sees that version 2 is another network")
        assert "golden answers differ" in version.reason
        result = engine.infer("digits", {"image": images[:3]})
        assert (result.version, np.array_equal(result.outputs["logits"], answers[:3])) == ("1", True)
        until(lambda: all(board.state == "ready" for board in engine.core.boards), "a board does not come back")


PATIENCE_SECONDS = 60.0  # no expectation: it ends a test that would otherwise hang


def test_what_comes_behind_the_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that asks while another one closes the engine would wait for ever: the loop has stopped before it begins."""
    asked: list[Future[Result]] = []
    engine = Engine(tmp_path, [])
    loop = engine.of_loop(asyncio.get_running_loop)
    stop = loop.stop

    def stopped() -> None:
        stop()
        asked.append(engine.submit("digits", {}))

    monkeypatch.setattr(loop, "stop", stopped)
    engine.close()
    with pytest.raises(BusyError, match="the server is closed"):
        asked[0].result(PATIENCE_SECONDS)
    with pytest.raises(BusyError, match="the server is closed"):
        engine.infer("digits", {})
    engine.close()


@pytest.mark.parametrize("broken", ["by an error", "by Ctrl-C"])
def test_an_engine_that_does_not_start_leaves_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    """A notebook's workers would stay, and keep their boards, until the notebook ends."""
    boards, start = list[EngineBoard](), Core.start

    async def failing(self: Core) -> None:
        await start(self)
        boards.extend(self.boards)
        if broken == "by an error":
            raise PermissionError(13, "Permission denied", "models")
        ident = threading.main_thread().ident
        assert ident is not None
        signal.pthread_kill(ident, signal.SIGINT)
        await asyncio.Event().wait()

    monkeypatch.setattr(Core, "start", failing)
    with pytest.raises(PermissionError if broken == "by an error" else KeyboardInterrupt):
        Engine(tmp_path, ["a=emulator"])
    assert [(board.state, board.pid) for board in boards] == [("closed", None)]


def test_what_goes_on_when_it_is_closed_ends(tmp_path: Path) -> None:
    """A thread that waits for a long load would wait for ever, and the program with it."""
    ended: Future[None] = Future()
    engine, begun = Engine(tmp_path, []), threading.Event()

    async def work() -> None:
        begun.set()
        await asyncio.Event().wait()

    def wait_for_it() -> None:
        try:
            engine.of_loop(work)
        except BusyError as error:
            ended.set_exception(error)

    threading.Thread(target=wait_for_it, daemon=True).start()
    assert begun.wait(PATIENCE_SECONDS)
    engine.close()
    with pytest.raises(BusyError, match="the server is closed"):
        ended.result(PATIENCE_SECONDS)
