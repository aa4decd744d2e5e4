"""A runtime of somebody else's: a class behind an entry point, which the engine has never heard of."""

from pathlib import Path

import numpy as np
import pytest

from cnna.serve import Engine
from cnna.serve.boards.limits import Limits
from cnna.serve.models.settings import settings_of
from cnna.serve.runtimes.describe import described
from cnna.serve.runtimes.installed import names
from cnna.serve.runtimes.interface import Place
from cnna.spec.errors import BusyError, CnnaError, DataError, LateError, ToolError, UserError

CODE = '''
import os, sys
import numpy as np
from cnna.serve.runtimes.interface import ANY, Description, Tensor
from cnna.spec.errors import DataError, UserError

class Counted:
    """Adds options["add"]; 1.0 is bad data, 2.0 an error, 3.0 a wrong shape, 4.0 the end of the process."""

    def __init__(self, place):
        print("libraries print things")
        if place.options.get("add") == "crash":
            os._exit(7)
        if not isinstance(place.options.get("add"), int):
            raise UserError(f"{place.folder}: fake: add must be a number")
        self.add = place.options["add"]

    def describe(self):
        return Description((Tensor("x", "float32", (2,)),), (Tensor("y", "float64", (2,)),), batch=4)

    def run(self, inputs, call):
        x, mode = inputs["x"], float(inputs["x"][0, 0])
        if mode == 1:
            raise DataError("x begins with 1")
        if mode == 2:
            raise ValueError("it cannot be\\ndone")
        if mode == 4:
            os._exit(8)
        return {"y": (x if mode != 3 else x[:, :1]).astype(np.float64) + self.add}

    def close(self):
        pass
'''


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose model asks for a runtime that was installed a moment ago, in this process and in its children."""
    site = tmp_path / "site"
    (site / "fake-1.dist-info").mkdir(parents=True)
    (site / "fake-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: fake\nVersion: 1\n")
    points = "[cnna.serve.runtimes]\nfake = fake_runtime:Counted\nbroken = fake_runtime:Missing\nabsent = not_there:Class\n"
    (site / "fake-1.dist-info" / "entry_points.txt").write_text(points)
    (site / "fake_runtime.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=":")
    (tmp_path / "r" / "m" / "1").mkdir(parents=True)
    (tmp_path / "r" / "m" / "model.yaml").write_text("runtime: fake\nfake: {add: 10}\nretries: 1\n")
    return tmp_path / "r"


def x(first: float, samples: int = 1) -> np.ndarray:
    return np.full((samples, 2), first, np.float32)


def test_it_serves_and_its_errors_are_causes(fake: Path) -> None:
    """A runtime's error would end the worker for all models, or the client would not be told what was wrong."""
    assert {"cnna", "onnxruntime", "remote", "fake"} <= set(names())
    with Engine(fake, ["a=emulator"], Limits(hang_seconds=60.0, pause_seconds=(0.0, 0.0))) as engine:
        assert np.array_equal(engine.infer("m", {"x": x(5, 9)}).outputs["y"], x(15, 9))
        board = engine.core.board("fake")
        assert board is not None
        pid = board.pid
        with pytest.raises(DataError, match="x begins with 1"):
            engine.infer("m", {"x": x(1)})
        with pytest.raises(BusyError, match="failed 2 times, last: runtime fake: ValueError: it cannot be done"):
            engine.infer("m", {"x": x(2)})
        with pytest.raises(BusyError, match=r"output y is float64 \[1, 1\], but was described as float64 \[1, 2\]"):
            engine.infer("m", {"x": x(3)})
        assert board.pid == pid
        with pytest.raises(BusyError, match=r"its worker ended \(code 8\)"):
            engine.infer("m", {"x": x(4)})
        assert np.array_equal(engine.infer("m", {"x": x(6)}).outputs["y"], x(16))
        stats = engine.core.catalogue.model("m").versions["1"].stats
        assert (stats.succeeded, stats.failed) == (2, {"data": 1, "board": 3})


@pytest.mark.parametrize(
    ("runtime", "add", "kind", "said"),
    [
        ("fake", None, UserError, "fake: add must be a number"),
        ("fake", "crash", UserError, "ended with code 7; its last words: libraries print things"),
        ("broken", 1, ToolError, "cannot be imported: .*Missing"),
        ("absent", 1, ToolError, r"cannot be imported: .*\(pip install not_there\)"),
        ("cnna", 1, UserError, "there is no runtime 'cnna' without an accelerator"),
    ],
)
def test_a_version_that_cannot_be_opened(fake: Path, runtime: str, add: object, kind: type[CnnaError], said: str) -> None:
    """The front would die with a runtime, or its user would see a traceback."""
    with pytest.raises(kind, match=said) as caught:
        described(runtime, Place("m", "1", fake / "m" / "1", {"add": add}))
    assert "\n" not in str(caught.value)


def test_model_yaml_knows_it(fake: Path) -> None:
    """Its options would be unknown keys, or belong to nobody."""
    path = fake / "m" / "model.yaml"
    assert (settings_of(path).runtime, settings_of(path).options) == ("fake", {"fake": {"add": 10}})
    path.write_text("fake: {add: 10}\n")
    with pytest.raises(UserError, match=r"unknown key 'fake'; .* it is for models with `runtime: fake`"):
        settings_of(path)
    path.write_text("runtime: fake\nfake: 3\n")
    with pytest.raises(UserError, match=r"fake: 3 must be like \{key: value\}"):
        settings_of(path)


def test_errors_pass_from_process_to_process() -> None:
    """A client would get the code of another error."""
    from cnna.serve.runtimes.interface import error_of, name_of

    class OwnError(LateError):
        pass

    assert type(error_of(name_of(OwnError("x")), "x")) is LateError
    assert type(error_of(name_of(DataError("x")), "x")) is DataError
    assert type(error_of("unheard of", "x")).__name__ == "RunError"
