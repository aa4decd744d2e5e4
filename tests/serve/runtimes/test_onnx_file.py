"""The runtime `onnxruntime`: a model.onnx is served as any version is, by a worker without an accelerator."""

import os
import shutil
import signal
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from cnna.serve import Engine
from cnna.serve.boards.limits import Limits
from cnna.serve.models import golden
from cnna.serve.models.repository import open_repository
from cnna.serve.runtimes.describe import described
from cnna.serve.runtimes.interface import Call, Place
from cnna.serve.runtimes.onnx_file import PREPROCESS, OnnxFile
from cnna.spec.errors import ArtifactError, BusyError, CnnaError, DataError, UserError

from ...compiler.pairs import with_pairs
from ...compiler.written import answers, written

PATIENT = Limits(hang_seconds=60.0, pause_seconds=(0.0, 0.0), failures=1000)


def save(folder: Path, factor: float = 2.0, batch: Any = "N", shape: Sequence[Any] = (3,), kind: int = TensorProto.FLOAT) -> Path:
    """y = x * factor, samples of `shape`."""
    folder.mkdir(parents=True, exist_ok=True)
    x, y = (helper.make_tensor_value_info(name, kind, [batch, *shape]) for name in "xy")
    constant = helper.make_tensor("f", TensorProto.FLOAT, [], [factor])
    nodes = (
        [helper.make_node("Mul", ["x", "f"], ["y"])] if kind == TensorProto.FLOAT else [helper.make_node("Identity", ["x"], ["y"])]
    )
    graph = helper.make_graph(nodes, "scaled", [x], [y], [constant] if kind == TensorProto.FLOAT else [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, folder / "model.onnx")
    return folder


def versions(root: Path, *factors: float) -> Path:
    """R/scaled/1, R/scaled/2, ... with golden answers."""
    for number, factor in enumerate(factors, 1):
        folder = save(root / "scaled" / str(number), factor)
        x = np.arange(15, dtype=np.float32).reshape(5, 3)
        golden.write(folder / "golden.npz", {"x": x}, {"y": x * np.float32(factor)})
    (root / "scaled" / "model.yaml").write_text("runtime: onnxruntime\nonnxruntime: {batch: 4}\nversions: all\n")
    return root


def place(folder: Path, **options: Any) -> Place:
    return Place("m", "1", folder, options)


def test_a_served_model_keeps_its_roundings(tmp_path: Path) -> None:
    """onnxruntime would merge a model's two roundings in a row; a fallback's answers would be far from the accelerator's."""
    text = "g (float[N,64] x) => (float[N,64] y) { y = Identity (x) }"
    model = with_pairs(written(text), {"x": (1 / 32, 5), "y": (1 / 5, -7)})
    onnx.save(model, tmp_path / "model.onnx")
    feeds = {"x": np.random.default_rng(1).normal(size=(2, 64)).astype(np.float32)}
    with closing(OnnxFile(place(tmp_path))) as one:
        found = one.run(feeds, Call())
    np.testing.assert_array_equal(found["y"], answers(model, feeds)[0])


def test_a_batch_that_the_model_leaves_open_or_fixes(tmp_path: Path) -> None:
    """A part batch would be refused by a model with a fixed one, or its zeros would be answered to somebody."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for batch, options, most in (("N", {}, 8), ("N", {"batch": 3}, 3), (4, {}, 4)):
        one = OnnxFile(place(save(tmp_path / f"{batch}{most}", batch=batch), **options))
        assert one.describe().batch == most
        assert [tensor.served_shape for tensor in (*one.describe().inputs, *one.describe().outputs)] == [[-1, 3], [-1, 3]]
        assert np.array_equal(one.run({"x": x}, Call())["y"], x * 2)
        one.close()


def test_pictures_go_through_the_preprocessing_that_the_model_stores(tmp_path: Path) -> None:
    """uint8 pictures would be taken for the floats of the model's input."""
    model = onnx.load(save(tmp_path, shape=(3, 4, 5)) / "model.onnx")
    model.metadata_props.add(key=PREPROCESS, value='{"scale": 0.5, "mean": [1.0], "std": [1.0]}')
    onnx.save(model, tmp_path / "model.onnx")
    one = OnnxFile(place(tmp_path))
    assert one.describe().preprocess is not None
    pictures = np.random.default_rng(1).integers(0, 256, (2, 3, 4, 5), np.uint8)
    wanted = (pictures.astype(np.float32) * 0.5 - 1) * 2
    assert np.array_equal(one.run({"x": pictures}, Call())["y"], wanted)
    assert np.array_equal(one.run({"x": pictures.transpose(0, 2, 3, 1)}, Call())["y"], wanted)


@pytest.mark.parametrize(
    ("made", "options", "said"),
    [
        ({}, {"threads": 2}, "unknown key 'threads'; there are file, batch"),
        ({}, {"file": "../model.onnx"}, "must be the name of a file in this folder"),
        ({}, {"file": "other.onnx"}, "other.onnx: is not there"),
        ({}, {"batch": 0}, "batch: 0 is not an integer within 1.."),
        ({"shape": ("W",)}, {}, "the size of output y is open"),
        ({"kind": TensorProto.STRING}, {}, r"input x is a tensor\(string\), which is not served"),
    ],
)
def test_what_cannot_be_served_is_one_line(tmp_path: Path, made: dict[str, Any], options: dict[str, Any], said: str) -> None:
    """It would fail at the first request, or in every one."""
    with pytest.raises(UserError, match=said) as caught:
        described("onnxruntime", place(save(tmp_path, **made), **options))
    assert str(caught.value).startswith(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    """The front would die with it, or its error would not name the file."""
    (tmp_path / "model.onnx").write_bytes(b"nonsense")
    with pytest.raises(CnnaError, match=r"model\.onnx: onnxruntime cannot open it"):
        described("onnxruntime", place(tmp_path))


def test_versions_are_tested_switched_and_named(tmp_path: Path) -> None:
    """A runtime of its own must not bypass golden answers, nor mix versions."""
    root = versions(tmp_path, 2.0, 3.0)
    x = np.arange(30, dtype=np.float32).reshape(10, 3)
    with Engine(root, ["a=emulator"], PATIENT) as engine:
        assert engine.core.ready
        assert [board.spec.name for board in engine.core.boards] == ["a", "onnxruntime"]
        result = engine.infer("scaled", {"x": x.astype(np.float64)})
        assert (result.version, result.runtime) == ("2", "onnxruntime")
        assert np.array_equal(result.outputs["y"], x * 3)
        assert np.array_equal(engine.infer("scaled", {"x": x}, "1").outputs["y"], x * 2)
        for given, said in (
            ({"x": x[:, :2]}, "the model wants"),
            ({"z": x}, "has inputs x; missing: x; unknown: z"),
            ({"x": x[:0]}, "no samples"),
        ):
            with pytest.raises(DataError, match=said):
                engine.infer("scaled", given)
        shutil.copytree(root / "scaled" / "1", root / "scaled" / "3")
        save(root / "scaled" / "3", 2.5)
        engine.load("scaled")
        three = engine.core.catalogue.model("scaled").versions["3"]
        assert three.state == "UNAVAILABLE"
        assert "golden answers differ: output y, element [0, 1]" in three.reason
        assert engine.infer("scaled", {"x": x}).version == "2"


def test_a_worker_that_dies_loses_no_request(tmp_path: Path) -> None:
    """The requests of its model would be lost, though it needs no accelerator."""
    x = np.arange(3, dtype=np.float32).reshape(1, 3)
    with Engine(versions(tmp_path, 2.0), ["a=cpu,kill=5"], PATIENT) as engine:
        assert [board.spec.name for board in engine.core.boards] == ["a"]  # a board of the kind cpu is there already
        for _ in range(6):
            assert np.array_equal(engine.infer("scaled", {"x": x}).outputs["y"], x * 2)
    with Engine(tmp_path, ["a=emulator"], PATIENT) as engine:
        board = engine.core.board("onnxruntime")
        assert board is not None
        assert board.pid is not None
        os.kill(board.pid, signal.SIGKILL)
        assert np.array_equal(engine.infer("scaled", {"x": x}).outputs["y"], x * 2)


def test_a_model_that_no_board_runs_says_why(tmp_path: Path, images: NDArray[np.float32], published: Path) -> None:
    """A model for accelerators on a computer without one would wait for ever."""
    with Engine(published, ["a=cpu"], PATIENT) as engine:
        with pytest.raises(BusyError, match="there is no board for the runtime cnna"):
            engine.infer("digits", {"image": images[:1]})
        assert not engine.core.ready


def test_a_version_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """Its model would have no reason."""
    root = versions(tmp_path, 2.0)
    (root / "scaled" / "1" / "model.onnx").unlink()
    with pytest.raises(ArtifactError, match=r"model\.onnx: is not there"):
        open_repository(root).version("scaled", "1")
