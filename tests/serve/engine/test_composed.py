"""Pipelines with real workers: steps in order, one deadline and id for all, and parts that come and go."""

import asyncio
import shutil
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from cnna.serve import Engine
from cnna.serve.boards.board_spec import BoardSpec
from cnna.serve.boards.limits import Limits
from cnna.serve.engine.board import EngineBoard
from cnna.serve.engine.core import Core
from cnna.serve.engine.served import BROKEN_OFF, COMING, Served
from cnna.serve.models.repository import open_repository
from cnna.serve.models.version import Version
from cnna.serve.protocol import described
from cnna.serve.requests import composed
from cnna.serve.requests.composed import Ask, Composition
from cnna.serve.requests.request import BatchRun, Request
from cnna.spec.errors import BusyError, DataError, LateError

from ...waiting import until

Within = Callable[[Coroutine[Any, Any, None]], None]
PATIENT = Limits(hang_seconds=60.0, pause_seconds=(0.0, 0.0), failures=1000)
STEPS = '''
import time
import numpy as np
from cnna.spec.errors import DataError

def chosen(x):
    """Rows that begin with a positive number, and their numbers."""
    if (x > 1000).any():
        raise DataError("a value is too large")
    if (x == 500).any():
        time.sleep(55)
    if (x == 600).any():
        return x
    number = np.flatnonzero(x[:, 0] > 0)
    return x[number], number

def joined(a, b):
    return {"sum": a + b}
'''
PIPELINE = """
inputs: {x: {type: float32, shape: [-1, 3]}}
steps:
  choose:
    function: steps:chosen
    inputs: {x: x}
    outputs: {rows: {type: float32, shape: [-1, 3]}, number: {type: int64, shape: [-1]}}
  double: {model: scaled, version: 1, inputs: {x: choose.rows}}
  triple: {model: scaled, inputs: {x: choose.rows}}
  tenfold: {onnx: tenfold.onnx, inputs: {x: triple.y}}
  join:
    function: steps:joined
    inputs: {a: double.y, b: tenfold.y}
    outputs: {sum: {type: float32, shape: [-1, 3]}}
outputs: {sum: join.sum, number: choose.number}
"""


def save(path: Path, factor: float, y: str = "y") -> None:
    """y = x * factor."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 3]) for name in ("x", y)]
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "f"], [y])],
        "g",
        ends[:1],
        ends[1:],
        [helper.make_tensor("f", TensorProto.FLOAT, [], [factor])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """R/scaled with versions 1 and 2, and R/a_pipe, which comes before it in the alphabet."""
    root = tmp_path_factory.mktemp("composed")
    for version, factor in (("1", 2.0), ("2", 3.0)):
        save(root / "scaled" / version / "model.onnx", factor)
    (root / "scaled" / "model.yaml").write_text("runtime: onnxruntime\nversions: all\nmax_request_samples: 4\n")
    save(root / "a_pipe" / "tenfold.onnx", 10.0)
    (root / "a_pipe" / "pipeline.yaml").write_text(PIPELINE)
    (root / "a_pipe" / "steps.py").write_text(STEPS)
    return root


@pytest.fixture(scope="module")
def engine(made: Path) -> Iterator[Engine]:
    """An engine for the tests that change nothing."""
    with Engine(made, ["a=cpu"], PATIENT) as engine:
        yield engine


def x(*first: float) -> np.ndarray:
    return np.repeat(np.array(first, np.float32)[:, None], 3, axis=1)


def test_a_request_goes_through_all_steps(engine: Engine) -> None:
    """A step would get another one's rows. There may be none, and more than a model takes at once."""
    for given in (x(1, -2, 3), x(-1, -2), x(*range(1, 20)), x(5)):
        result = engine.infer("a_pipe", {"x": given})
        number = np.flatnonzero(given[:, 0] > 0)
        assert np.array_equal(result.outputs["number"], number)
        assert np.array_equal(result.outputs["sum"], given[number] * 32)
        assert (result.model, result.version, result.runtime) == ("a_pipe", "1", "onnxruntime" if len(number) else "cnna")


def test_names_of_classes_go_with_a_steps_answer(made: Path, tmp_path: Path) -> None:
    """A pipeline that ends in a classifier would lose the names that the classifier's own clients get."""
    shutil.copytree(made, tmp_path / "r")
    for version in ("1", "2"):
        (tmp_path / "r" / "scaled" / version / "labels.json").write_text('{"y": ["cat", "dog", "bird"]}')
    (tmp_path / "r" / "named").mkdir()
    ends = "inputs: {x: {type: float32, shape: [-1, 3]}}\noutputs: {scores: double.y}\n"
    (tmp_path / "r" / "named" / "pipeline.yaml").write_text(f"{ends}steps:\n  double: {{model: scaled, inputs: {{x: x}}}}\n")
    with Engine(tmp_path / "r", ["a=cpu"], PATIENT) as engine:
        assert engine.infer("scaled", {"x": x(1)}).labels == {"y": ["cat", "dog", "bird"]}
        assert engine.infer("named", {"x": x(1)}).labels == {"scores": ["cat", "dog", "bird"]}


def test_what_clients_see_of_it(engine: Engine) -> None:
    """It is served under its folder's name like any model, and its pieces are shown beside it."""
    core = engine.core
    assert described.metadata(core, "a_pipe", None)["outputs"] == [
        {"name": "sum", "datatype": "FP32", "shape": [-1, 3]},
        {"name": "number", "datatype": "INT64", "shape": [-1]},
    ]
    assert core.ready
    before = core.catalogue.model("a_pipe").versions["1"].stats.succeeded
    parts = core.catalogue.model("a_pipe:join").versions["1"].stats.succeeded
    engine.infer("a_pipe", {"x": x(1, 2)})
    stats = core.catalogue.model("a_pipe").versions["1"].stats
    assert (stats.succeeded, stats.runs.seconds > 0) == (before + 1, True)
    assert core.catalogue.model("a_pipe:join").versions["1"].stats.succeeded == parts + 1
    names = {row["name"] for row in described.index(core, ready=True)}
    assert names == {"a_pipe", "a_pipe:choose", "a_pipe:tenfold", "a_pipe:join", "scaled"}


def test_one_id_and_one_deadline(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step's line in the log could not be found, or a step would work for a client that has gone."""
    seen: list[Any] = []
    admit = engine.core.admit

    def admitted(model: str, *given: Any, **more: Any) -> Any:
        seen.append((model, more.get("request_id"), more.get("timeout_us"), more.get("priority")))
        return admit(model, *given, **more)

    monkeypatch.setattr(engine.core, "admit", admitted)
    engine.infer("a_pipe", {"x": x(1)}, request_id="r9", timeout_us=9_000_000, priority=3)
    assert {model for model, *_ in seen} == {"a_pipe", "a_pipe:choose", "scaled", "a_pipe:tenfold", "a_pipe:join"}
    assert {(name, priority) for _, name, _, priority in seen} == {("r9", 3)}
    assert all(timeout <= 9_000_000 for _, _, timeout, _ in seen)


def test_errors_name_the_step(engine: Engine) -> None:
    """A user would not know which of five models is meant."""
    with pytest.raises(DataError, match="step choose: a value is too large"):
        engine.infer("a_pipe", {"x": x(2000)})
    with pytest.raises(BusyError, match=r"step choose: .*steps:chosen returned 1 arrays, but declares rows, number"):
        engine.infer("a_pipe", {"x": x(600)})
    with pytest.raises(DataError, match="a_pipe has inputs x; missing: x"):
        engine.infer("a_pipe", {"z": x(1)})
    with pytest.raises(DataError, match="no samples"):
        engine.infer("a_pipe", {"x": x()})
    stats = engine.core.catalogue.model("a_pipe").versions["1"].stats
    assert stats.failed == {"data": 1, "step": 1}


def test_a_deadline_ends_all_steps(made: Path) -> None:
    """Steps behind it would still be asked, and memory be kept."""
    with Engine(made, ["a=cpu"], PATIENT) as engine:
        started = time.monotonic()
        with pytest.raises(LateError, match=r"model a_pipe: no answer within its deadline of 0\.3 s"):
            engine.infer("a_pipe", {"x": x(500)}, timeout_us=300_000)
        assert time.monotonic() - started < 50
        until(lambda: not engine.core.requests, "a step is still asked")


def test_it_is_ready_when_all_its_parts_are(made: Path, tmp_path: Path) -> None:
    """Requests would be admitted that fail in the middle; or the pipeline would stay refused when its model has come."""
    root = tmp_path / "r"
    shutil.copytree(made, root)
    (root / "scaled").rename(tmp_path / "scaled")
    with Engine(root, ["a=cpu"], PATIENT) as engine:
        with pytest.raises(BusyError, match=r"pipeline\.yaml: step double: model scaled is not there; there are a_pipe"):
            engine.infer("a_pipe", {"x": x(1)})
        assert not engine.core.ready
        (tmp_path / "scaled").rename(root / "scaled")
        engine.load("scaled")
        assert engine.core.ready
        assert np.array_equal(engine.infer("a_pipe", {"x": x(1)}).outputs["sum"], x(32))
        engine.unload("scaled")
        with pytest.raises(BusyError, match=r"model a_pipe: step double: model scaled, version 1 is un(loading|available)"):
            engine.infer("a_pipe", {"x": x(1)})
        assert described.why_not_ready(engine.core, "a_pipe", None) is not None


def test_a_pipeline_counts_once_and_its_trace_has_its_steps(made: Path, tmp_path: Path) -> None:
    """The console would show several times the samples that clients have sent; nobody could say where a pipeline's time went."""
    shutil.copytree(made, tmp_path / "r")
    with Engine(tmp_path / "r", ["a=cpu"], PATIENT) as engine:
        runs: list[BatchRun] = []

        async def asked() -> None:
            await engine.core.admit("a_pipe", {"x": x(1, 2)}, runs=runs).future

        engine.of_loop(asked)
        assert sum(row["samples"] for row in engine.core.history.series()) == 2
        assert sorted(run.model for run in runs) == ["a_pipe:choose", "a_pipe:join", "a_pipe:tenfold", "scaled", "scaled"]
        with pytest.raises(DataError):
            engine.infer("a_pipe", {"x": x(2000)})
        assert sum(row["failed"] for row in engine.core.history.series()) == 1


def test_a_step_whose_model_has_other_tensors_now(made: Path, tmp_path: Path) -> None:
    """Each request would fail in the middle, with an internal error or as the client's mistake."""
    root = tmp_path / "r"
    shutil.copytree(made, root)
    with Engine(root, ["a=cpu"], PATIENT) as engine:
        save(root / "scaled" / "3" / "model.onnx", 4.0, "other")
        engine.load("scaled")
        assert described.why_not_ready(engine.core, "scaled", "3") is None
        said = "model a_pipe: step triple: model scaled, version 3 takes or gives other tensors than when the pipeline was loaded"
        with pytest.raises(BusyError, match=said):
            engine.infer("a_pipe", {"x": x(1)})


def test_a_file_that_was_changed_is_taken_by_load_if_it_is_good(made: Path, tmp_path: Path) -> None:
    """A mistake in an edit would take a pipeline down that was served; a new function would not be imported."""
    root = tmp_path / "r"
    shutil.copytree(made, root)
    path, code = root / "a_pipe" / "pipeline.yaml", root / "a_pipe" / "steps.py"
    wrong = {
        "{x: triple.y}": ("{x: choose.number}", "step tenfold: input x is float32 [-1, 3], but choose.number is int64 [-1]"),
        "version: 1, ": ("version: 7, ", "step double: model scaled has no version '7'; there are 1, 2"),
        "b: tenfold.y": ("b: tenfold.z", "step join: step tenfold has no output 'z'; it has y"),
        "steps:joined": ("steps:glued", "step join: steps has no function 'glued'; it has chosen, joined"),
        "tenfold.onnx": ("hundred.onnx", "step tenfold: "),
        "{x: choose.rows}}\n  tenfold": (
            "{z: choose.rows}}\n  tenfold",
            "step triple: scaled has inputs x; missing: x; unknown: z",
        ),
        "sum: join.sum": ("sum: join.total", "output sum: step join has no output 'total'; it has sum"),
    }
    with Engine(root, ["a=cpu"], PATIENT) as engine:
        for old, (new, said) in wrong.items():
            path.write_text(PIPELINE.replace(old, new, 1))
            engine.load("a_pipe")
            assert said in engine.core.catalogue.model("a_pipe").reason
            assert engine.core.catalogue.model("a_pipe").reason.startswith(str(path))
        assert np.array_equal(engine.infer("a_pipe", {"x": x(1)}).outputs["sum"], x(32))
        path.write_text(PIPELINE)
        code.write_text(STEPS.replace("a + b", "a - b"))
        engine.load("a_pipe")
        assert not engine.core.catalogue.model("a_pipe").reason
        assert np.array_equal(engine.infer("a_pipe", {"x": x(1)}).outputs["sum"], x(-28))
        assert engine.core.catalogue.model("a_pipe:join").default is not None
        engine.unload("a_pipe")
        assert engine.core.ready
        assert engine.infer("scaled", {"x": x(1)}).version == "2"


SHORT = """
inputs: {{x: {{type: float32, shape: [-1, 3]}}}}
steps:
  a: {{function: "steps:{0}", inputs: {{x: x}}, outputs: {{y: {{type: float32, shape: [-1, 3]}}}}}}
  b: {{function: "steps:{1}", inputs: {{x: a.y}}, outputs: {{y: {{type: float32, shape: [-1, 3]}}}}}}
outputs: {{y: b.y}}
"""
SHORT_STEPS = """
def more(x): return x + 1
def same(x): return x
def tenfold(x): return x * 10
def broken(x): return 1 / 0
"""


class Short:
    """A pipeline of two functions, whose requests stop between its steps while `gate` is closed. reached: one has come there."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = root / "p"
        self.folder.mkdir(parents=True)
        (self.folder / "steps.py").write_text(SHORT_STEPS)
        self.core = Core(open_repository(root), [BoardSpec("a", "cpu")], PATIENT)
        self.gate, self.reached = asyncio.Event(), asyncio.Event()
        self.gate.set()
        answer = composed.answer

        async def answered(composition: Composition, request: Request, ask: Ask) -> None:
            async def asked(model: str, *given: Any) -> Any:
                found = await ask(model, *given)
                if model == "p:a":
                    self.reached.set()
                    await self.gate.wait()
                return found

            await answer(composition, request, asked)

        monkeypatch.setattr(composed, "answer", answered)

    def write(self, *functions: str) -> None:
        (self.folder / "pipeline.yaml").write_text(SHORT.format(*functions))

    async def load(self, *functions: str) -> list[Served]:
        self.write(*functions)
        return await self.core.catalogue.load("p")

    async def stopped(self) -> Request:
        """A request behind its first step."""
        self.gate.clear()
        request = self.core.admit("p", {"x": x(1)})
        await self.reached.wait()
        return request

    async def answer(self) -> float:
        """To 1."""
        return float((await self.core.admit("p", {"x": x(1)}).future).outputs["y"][0, 0])

    @property
    def loaded(self) -> list[str]:
        """What the board has."""
        return list(self.core.boards[0].loaded)

    async def freed(self) -> None:
        """Waits until nothing is unloading."""
        while freeing := [one.freeing for one in self.core.catalogue.served() if one.freeing and not one.freeing.done()]:
            await asyncio.wait(freeing)


def test_an_open_request_keeps_the_pieces_with_which_it_has_begun(
    tmp_path: Path, within: Within, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would get the answer of neither pipeline: the first step of the old one and the second step of the new one."""

    async def run() -> None:
        short = Short(tmp_path, monkeypatch)
        short.write("more", "same")
        await short.core.start()
        request = await short.stopped()
        assert await short.load("same", "tenfold") == []
        assert [one.state for one in short.core.catalogue.models["p:b"].versions.values()] == ["UNLOADING", "READY"]
        with pytest.raises(BusyError, match="model p:b, version 1 is unloading: the pipeline was loaded again"):
            short.core.admit("p:b", {"x": x(1)}, "1")
        short.gate.set()
        assert (await request.future).outputs["y"][0, 0] == 2
        assert await short.answer() == 10
        await short.freed()
        assert short.loaded == ["p:a/2/function-b1048576", "p:b/2/function-b1048576"]
        await short.core.close()

    within(run())


def test_a_pipeline_that_is_unloaded_answers_what_it_has(tmp_path: Path, within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator who unloads it would fail the requests that it has admitted."""

    async def run() -> None:
        short = Short(tmp_path, monkeypatch)
        short.write("more", "same")
        await short.core.start()
        request = await short.stopped()
        await short.core.catalogue.unload("p")
        with pytest.raises(BusyError, match="model p has no version that is ready: version 1: unloaded by an operator"):
            short.core.admit("p", {"x": x(1)})
        short.gate.set()
        assert (await request.future).outputs["y"][0, 0] == 2
        await short.freed()
        assert short.loaded == []
        assert await short.load("more", "tenfold") == []
        assert await short.answer() == 20
        await short.core.close()

    within(run())


def test_a_pipeline_that_is_refused_leaves_no_piece_on_a_board(
    tmp_path: Path, within: Within, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its good pieces would take memory, and be taken for those of the next load, which have the same names."""

    async def run() -> None:
        short = Short(tmp_path, monkeypatch)
        short.write("more", "broken")
        await short.core.start()
        assert "ZeroDivisionError: division by zero" in short.core.catalogue.models["p"].reason
        assert short.loaded == []
        assert await short.load("same", "tenfold") == []
        assert await short.answer() == 10
        await short.core.close()

    within(run())


@contextmanager
def loading(monkeypatch: pytest.MonkeyPatch, gate: asyncio.Event) -> Iterator[Callable[[], Coroutine[Any, Any, bool]]]:
    """Boards do not load a second step while the gate is closed. Yields what waits until one is asked to."""
    begun, load = asyncio.Event(), EngineBoard.load

    async def loaded(self: EngineBoard, version: Version, runtimes: Sequence[str] = ()) -> None:
        if version.model == "p:b":
            begun.set()
            await gate.wait()
        await load(self, version, runtimes)

    with monkeypatch.context() as patched:
        patched.setattr(EngineBoard, "load", loaded)
        yield begun.wait


def test_a_pipeline_whose_load_is_broken_off_is_unavailable(
    tmp_path: Path, within: Within, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would know why it is not there, and its first piece would stay on the boards."""

    async def run() -> None:
        short = Short(tmp_path, monkeypatch)
        await short.core.start()
        with loading(monkeypatch, asyncio.Event()) as begun:
            load = asyncio.create_task(short.load("more", "same"))
            await begun()
            assert short.loaded == ["p:a/1/function-b1048576"]
            load.cancel()
            await asyncio.wait([load])
        served = short.core.catalogue.models["p"].versions["1"]
        assert (load.cancelled(), served.state, served.reason) == (True, "UNAVAILABLE", BROKEN_OFF)
        assert short.loaded == []
        assert await short.load("more", "same") == []
        assert await short.answer() == 2
        await short.core.close()

    within(run())


def test_a_pipeline_that_is_being_loaded_says_so(tmp_path: Path, within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index would tell its owner to publish a version, while its parts are tested on the boards."""

    async def run() -> None:
        short, gate = Short(tmp_path, monkeypatch), asyncio.Event()
        await short.core.start()
        with loading(monkeypatch, gate) as begun:
            load = asyncio.create_task(short.load("more", "same"))
            await begun()
            row = next(row for row in described.index(short.core) if row["name"] == "p")
            assert (row["state"], row["reason"]) == ("LOADING", COMING)
            gate.set()
            assert await load == []
        row = next(row for row in described.index(short.core) if row["name"] == "p")
        assert (row["state"], row["reason"]) == ("READY", "")
        await short.core.close()

    within(run())


def test_a_pipeline_that_is_unloaded_while_it_is_loaded_stays_away(
    tmp_path: Path, within: Within, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be back though an operator has taken it away after the load began."""

    async def run() -> None:
        short, gate = Short(tmp_path, monkeypatch), asyncio.Event()
        short.write("more", "same")
        await short.core.start()
        with loading(monkeypatch, gate) as begun:
            load = asyncio.create_task(short.load("more", "tenfold"))
            await begun()
            await short.core.catalogue.unload("p")
            gate.set()
            assert await load == []
        with pytest.raises(BusyError, match="model p has no version that is ready: version 1: unloaded by an operator"):
            short.core.admit("p", {"x": x(1)})
        await short.freed()
        assert (short.core.ready, short.loaded) == (True, [])
        assert await short.load("more", "tenfold") == []
        assert await short.answer() == 20
        await short.core.close()

    within(run())
