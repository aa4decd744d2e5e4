"""`fallback`: used where no board can answer and nowhere else, marked, counted, logged."""

import asyncio
import json
import os
import shutil
import signal
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.quantise.quantise import quantise
from cnna.compiler.zoo.digits import data
from cnna.serve import Engine
from cnna.serve.boards.limits import Limits
from cnna.serve.boards.process import LostError
from cnna.serve.engine.board import EngineBoard
from cnna.serve.http.app import App
from cnna.serve.lifecycle.boards import BoardLife
from cnna.serve.models import fallback, golden
from cnna.serve.models.repository import open_repository
from cnna.serve.models.version import Compiled
from cnna.spec.errors import ArtifactError, BusyError, RunError

from ...waiting import until
from ..http.asgi import call
from .fakes import FakeBoard, ask, core_of, version_of, wanted

Within = Callable[[Coroutine[Any, Any, None]], None]
Images = NDArray[np.float32]
SPARE = {"1": version_of("1", fallback="onnxruntime")}


@pytest.fixture(scope="session")
def with_model(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose version has a fallback, and whose settings ask for it."""
    root = tmp_path_factory.mktemp("fallback")
    shutil.copytree(published, root, dirs_exist_ok=True)
    model, _ = quantise(load_model(data.NETWORK), {"image": data.load().calibration.images})
    version = open_repository(root).version("digits", "1")
    assert version.golden is not None
    spare = fallback.measured(
        "onnxruntime", model.SerializeToString(), version.signature, version.golden.inputs, version.golden.outputs
    )
    fallback.write(root / "digits" / "1", spare)
    (root / "digits" / "model.yaml").write_text("fallback: onnxruntime\nretries: 1\n")
    return root


def test_boards_answer_as_long_as_one_can(tmp_path: Path, within: Within) -> None:
    """Answers would differ by a unit though a board was there; with none, requests would fail though they need not."""

    async def run() -> None:
        said: list[dict[str, Any]] = []

        def log(level: str, event: str, **more: Any) -> None:
            said.append({"event": event, **more})

        core, (a, b, cpu) = core_of(tmp_path, "a", "b", versions=SPARE, log=log)
        requests = [ask(core, 4, number) for number in range(4)]
        assert (len(a.had), len(b.had), len(cpu.had)) == (2, 2, 0)
        late = ask(core, 3, 70)  # both boards are busy: it waits for them
        assert not cpu.had
        for board in (a, b, a, b):
            await board.answer()
        await (a if a.running else b).answer()
        assert {request.future.result().runtime for request in (*requests, late)} == {"cnna"}
        a.life = b.life = BoardLife("resting", "it hangs")
        other = ask(core, 2, 50, request_id="r1")
        assert len(cpu.had) == 1
        await cpu.answer()
        result = other.future.result()
        assert (result.runtime, result.version) == ("onnxruntime", "1")
        assert np.array_equal(result.outputs["y"], wanted(2, 50, 1))
        (line,) = [one for one in said if one["event"] == "answered by the fallback"]
        assert line["cause"] == "board a is resting: it hangs; board b is resting: it hangs"
        assert (line["request_id"], line["model"], line["version"], line["runtime"]) == ("r1", "m", "1", "onnxruntime")
        assert core.catalogue.models["m"].versions["1"].stats.fallbacks == {"onnxruntime": 1}
        a.state = "ready"
        ask(core, 1)
        assert len(cpu.had) == 1

    within(run())


def test_a_board_of_all_runtimes_has_two_of_one_version(tmp_path: Path, within: Within) -> None:
    """The fallback would answer though nothing is wrong, since it is predicted to be quicker."""

    async def run() -> None:
        core, _ = core_of(tmp_path, versions=SPARE)
        board = FakeBoard("all", core, kind="cpu")
        core.boards[:] = [cast("EngineBoard", board)]
        own, spare = (Compiled(Path("1"), name, 8, 0, seconds, name) for name, seconds in (("remote", 9.0), ("onnxruntime", 1.0)))
        served = core.catalogue.models["m"].versions["1"]
        served.version = replace(SPARE["1"], compiled={"remote": (own,), "onnxruntime": (spare,)}, runtime="remote")
        board.runs = lambda version: (own, spare)  # type: ignore[method-assign]
        ask(core, 8)
        assert [one.runtime for _, one in board.had] == ["remote"]
        for tries in range(1, 4):
            await board.answer(BusyError("no way there"))
            while len(board.had) == tries:  # it is tried again after a pause
                await asyncio.sleep(0.01)
        assert [one.runtime for _, one in board.had] == ["remote", "remote", "remote", "onnxruntime"]

    within(run())


@pytest.mark.parametrize(
    ("have", "seconds"),
    [
        (["remote", "onnxruntime"], 27),
        (["remote"], 27),
        (["onnxruntime"], 3),
    ],
)
def test_a_full_queue_says_when_it_will_be_shorter(
    tmp_path: Path, within: Within, monkeypatch: pytest.MonkeyPatch, have: list[str], seconds: float
) -> None:
    """A client would get an internal error, or come back when a fallback that is not used would have answered."""

    async def run() -> None:
        core, _ = core_of(tmp_path, versions=SPARE, queue=20)
        board = FakeBoard("all", core, kind="cpu")
        core.boards[:] = [cast("EngineBoard", board)]
        both = {name: Compiled(Path("1"), name, 8, 0, each, name) for name, each in (("remote", 9.0), ("onnxruntime", 1.0))}
        served = core.catalogue.models["m"].versions["1"]
        served.version = replace(SPARE["1"], compiled={name: (one,) for name, one in both.items()}, runtime="remote")
        monkeypatch.setattr(board, "runs", lambda version: tuple(both[name] for name in have))
        board.state = "resting"
        ask(core, 20)
        with pytest.raises(BusyError, match="its queue of 20 samples is full") as caught:
            ask(core, 1)
        assert (caught.value.seconds, caught.value.full) == (seconds, True)

    within(run())


def test_a_batch_whose_retries_are_used_up(tmp_path: Path, within: Within) -> None:
    """A batch that kills boards would fail, though something else can answer it. That does not go round for ever either."""

    async def run() -> None:
        core, (a, cpu) = core_of(tmp_path, "a", versions=SPARE, retries=1)
        request, other = ask(core, 4, 7), ask(core, 4, 9)
        for _ in range(4):
            await a.answer(LostError("board a: it hangs", True))
        assert [len(batch.ranges) for batch, _ in cpu.had] == [1, 1]
        await cpu.answer()
        assert np.array_equal(request.future.result().outputs["y"], wanted(4, 7, 1))
        await cpu.answer(BusyError("no memory"))
        while not cpu.running:  # it is tried again after a pause
            await asyncio.sleep(0.01)
        await cpu.answer(BusyError("no memory"))
        with pytest.raises(BusyError, match="failed 2 times, last: no memory"):
            await other.future
        assert a.state == "ready"

    within(run())


def test_without_boards_the_server_is_ready_by_its_fallback(tmp_path: Path, within: Within) -> None:
    """A load balancer would take a server away that answers."""

    async def run() -> None:
        core, (a, cpu) = core_of(tmp_path, "a", versions=SPARE)
        a.state = "out"
        assert core.ready
        request = ask(core, 1, 3)
        await cpu.answer()
        assert request.future.done()
        cpu.state = "out"
        assert not core.ready
        with pytest.raises(BusyError, match="no board can answer: a: ; cpu: "):
            ask(core, 1)

    within(run())


def test_answers_over_http_are_marked(tmp_path: Path, within: Within) -> None:
    """A client could not tell an answer that may differ by a unit from an exact one."""

    async def run() -> None:
        core, (a, cpu) = core_of(tmp_path, "a", versions=SPARE)
        app = App(core, "9.9").asgi()
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 1]}]}
        for board, mark in ((a, None), (cpu, {"cnna_runtime": "onnxruntime"})):
            asked = asyncio.ensure_future(call(app, "POST", "/v2/models/m/infer", body))
            while not board.running:
                await asyncio.sleep(0)
            await board.answer()
            assert (await asked).json.get("parameters") == mark
            a.state = "out"
        text = (await call(app, "GET", "/metrics")).body.decode()
        assert 'cnna_requests_fallback_total{model="m",runtime="onnxruntime",version="1"} 1.0' in text

    within(run())


def test_a_version_answers_by_its_model_while_boards_are_away(with_model: Path, images: Images, answers: Images) -> None:
    """The fallback would be another model, or stay in use when a board is back."""
    scale = json.loads((with_model / "digits" / "1" / "fallback.json").read_text())["tolerance"]["logits"]
    limits = Limits(hang_seconds=60.0, pause_seconds=(60.0, 60.0))
    with Engine(with_model, ["a=emulator"], limits) as engine:
        first = engine.infer("digits", {"image": images[:4]})
        assert first.runtime == "cnna"
        assert np.array_equal(first.outputs["logits"], answers[:4])
        board = engine.core.board("a")
        assert board is not None
        assert board.pid is not None
        os.kill(board.pid, signal.SIGKILL)
        second = engine.infer("digits", {"image": images})
        assert second.runtime == "onnxruntime"
        assert np.abs(second.outputs["logits"] - answers).max() <= scale
        assert engine.core.ready
        engine.of_loop(board.reset)
        while board.state != "ready":
            engine.of_loop(lambda: asyncio.sleep(0.01))
        assert engine.infer("digits", {"image": images[:1]}).runtime == "cnna"


def test_a_fallback_does_not_hide_a_bad_version(with_model: Path, tmp_path: Path, images: Images) -> None:
    """A version whose artifacts are wrong would serve by its model, and nobody would look."""
    root = tmp_path / "r"
    shutil.copytree(with_model, root)
    path = root / "digits" / "1" / golden.FILE
    with np.load(path) as file:
        members = {name: np.asarray(file[name]) for name in file.files}
    members["output.logits"].view(np.int32)[0, 0] ^= 1
    np.savez(path, **members)
    with Engine(root, ["a=emulator"]) as engine, pytest.raises(BusyError, match="golden answers differ"):
        engine.infer("digits", {"image": images[:1]})


def test_a_fallback_with_other_answers_is_not_used(with_model: Path, tmp_path: Path, images: Images) -> None:
    """Its answers would be wrong just when no board is there to compare them with. The version itself is sound."""
    root, said = tmp_path / "r", list[str]()
    shutil.copytree(with_model, root)
    model = onnx.load(root / "digits" / "1" / "model.onnx")
    for one in model.graph.initializer:
        if one.name == "fc.weight:bias.1:int32":
            one.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(one) + 5000, one.name))
    spare = fallback.Spare(model.SerializeToString(), {"logits": 0.01}, 0.0)
    fallback.write(root / "digits" / "1", spare)
    limits = Limits(hang_seconds=60.0, pause_seconds=(60.0, 60.0), failures=1)
    with Engine(root, ["a=emulator"], limits, log=lambda level, event, **more: said.append(event)) as engine:
        assert "fallback refused" in said
        spare_board = engine.core.board("onnxruntime")
        assert spare_board is not None
        resets = spare_board.life.resets
        engine.of_loop(lambda: spare_board.reset())
        until(lambda: spare_board.life.resets > resets and spare_board.state in ("ready", "out"), "the board does not come back")
        assert spare_board.state == "ready"
        assert engine.infer("digits", {"image": images[:1]}).runtime == "cnna"
        engine.of_loop(lambda: engine.core.boards[0].fail("killed by a test"))
        with pytest.raises(RunError):
            engine.infer("digits", {"image": images[:1]}, timeout_us=500_000)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: (folder / "fallback.json").unlink(), "fallback.json: is not there, but model.yaml says fallback"),
        (lambda folder: (folder / "fallback.json").write_text("{}"), "has no digest, or no tolerance for an output"),
        (lambda folder: (folder / "model.onnx").write_bytes(b"x"), r"model\.onnx: is not what was published: its SHA-256 differs"),
    ],
)
def test_what_is_missing_is_one_line(with_model: Path, tmp_path: Path, spoil: Callable[[Path], Any], said: str) -> None:
    """It would be found when no board is there any more."""
    shutil.copytree(with_model, tmp_path / "r")
    spoil(tmp_path / "r" / "digits" / "1")
    with pytest.raises(ArtifactError, match=said) as caught:
        open_repository(tmp_path / "r").version("digits", "1")
    assert "\n" not in str(caught.value)


def test_a_model_with_other_tensors_is_refused(with_model: Path) -> None:
    """Its answers would have another shape than the version's."""
    version = open_repository(with_model).version("digits", "1")
    assert version.golden is not None
    model = onnx.load(with_model / "digits" / "1" / "model.onnx")
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("image:dq", 1, ["N", 1, 16, 16]))
    known = version.signature, version.golden.inputs, version.golden.outputs
    with pytest.raises(ArtifactError, match="fallback onnxruntime: the model has outputs image:dq, not logits"):
        fallback.measured("onnxruntime", model.SerializeToString(), *known)
