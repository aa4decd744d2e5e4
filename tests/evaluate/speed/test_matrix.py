"""A matrix: which rows it makes, and what is said of one that is wrong."""

from pathlib import Path
from typing import Any

import pytest

from cnna.evaluate.speed.matrix import ACCURACY, Cell, cells_of, read_matrix
from cnna.spec.errors import UserError

GIVEN: dict[str, Any] = {"models": ["q.onnx"], "scenarios": ["Offline"], "devices": ["predicted"]}


def rows(fixed: int | None = None, **changed: Any) -> list[str]:
    """The rows of a matrix, in words. fixed: the batch of each .onnx."""
    return list(map(str, cells_of(read_matrix({**GIVEN, **changed}), lambda path: fixed)))


def test_rows_are_all_that_fit_together() -> None:
    """A row would be missing, or be measured twice."""
    many: dict[str, Any] = {"configurations": ["tiny", "zcu102"], "batches": [1, 4], "devices": ["predicted", "onnxruntime"]}
    assert rows(**many) == [
        *(f"q, {config}, batch {batch}, Offline, predicted" for config in ("tiny", "zcu102") for batch in (1, 4)),
        *(f"q, batch {batch}, Offline, onnxruntime" for batch in (1, 4)),
    ]
    assert rows(1, **many)[4:] == ["q, batch 1, Offline, onnxruntime"]
    assert rows(models=["m.cnna"], batches=[1, 4], devices=["rtl", "http://127.0.0.1:8000"]) == [
        "m, Offline, rtl",
        *(f"m, batch {batch}, Offline, http://127.0.0.1:8000" for batch in (1, 4)),
    ]


def test_simulated_devices_answer_the_same_so_one_is_judged() -> None:
    """Hours would go into the same answers again."""
    both = rows(scenarios=["Server", ACCURACY], devices=["modelled", "predicted", "onnxruntime"], data="d.npz")
    assert both == [
        *(f"q, zcu102, batch 1, {pair}" for pair in ("Server, modelled", "Server, predicted", "AccuracyOnly, modelled")),
        *(f"q, batch 1, {scenario}, onnxruntime" for scenario in ("Server", ACCURACY)),
    ]


def test_a_model_may_have_devices_of_its_own() -> None:
    """A float model would be compiled, or the same row would need a matrix of its own."""
    float_one = {"name": "float", "file": "m.onnx", "devices": "onnxruntime"}
    assert rows(models=["q.onnx", float_one])[-1] == "float, batch 1, Offline, onnxruntime"


def test_paths_are_found_from_the_folder_of_the_file(tmp_path: Path) -> None:
    """A matrix would hold in one current folder alone."""
    (tmp_path / "m.yaml").write_text("models: q.onnx\nscenarios: Offline\ndevices: [predicted, b/cnna.bit]\ndata: d.npz\n")
    found = read_matrix(tmp_path / "m.yaml")
    assert (found.models[0].file, found.data) == (tmp_path / "q.onnx", tmp_path / "d.npz")
    assert found.devices == ("predicted", str(tmp_path / "b" / "cnna.bit"))
    assert isinstance(cells_of(found, lambda path: None)[0], Cell)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"model": 1}, "unknown key 'model'; there are models, configurations"),
        ({"scenarios": ["offline"]}, "there is no scenario 'offline'; there are SingleStream"),
        ({"scenarios": [["Offline"]]}, "there is no scenario"),
        ({"devices": ["gpu"]}, "there is no device 'gpu'; there are predicted"),
        ({"devices": []}, "devices: names nothing"),
        ({"devices": ["http://"]}, "there is no device 'http://'"),
        (
            {"devices": ["http://127.0.0.1:port"]},
            "there is no device 'http://127.0.0.1:port'; there are .* http://HOST:PORT and grpc://HOST:PORT",
        ),
        ({"devices": ["http://127.0.0.1:8000/v2/models"]}, "there is no device"),
        ({"batches": [0]}, "batches: 0 is not a whole number within 1"),
        ({"batches": [True]}, "batches: True is not"),
        ({"batches": [1, 1]}, "batches: 1 is there twice"),
        ({"seconds": "long"}, "seconds: 'long' is not a number above 0"),
        ({"seconds": float("nan")}, "seconds: nan is not a number above 0"),
        ({"qps": -1}, "qps: -1 is not a number above 0"),
        ({"models": ["a.pt"]}, r"a.pt: a model is a .cnna or an .onnx file"),
        ({"models": ["."]}, r"models: \. is a folder; name the .cnna or .onnx file in it"),
        ({"devices": ["grpc://h"]}, "there is no device 'grpc://h'; there are .* and grpc://HOST:PORT"),
        ({"models": [{"name": "a"}]}, "models: file is missing; a model has file, name and devices"),
        ({"models": ["q.onnx", "q.onnx"]}, "models: q.onnx is there twice"),
        ({"models": [{"file": "a.onnx", "device": "rtl"}]}, "unknown key 'device'; a model has file, name and devices"),
        ({"models": ["a/m.onnx", "b/m.onnx"]}, "two are called m; give one another `name`"),
        ({"models": ["m.cnna"], "devices": ["onnxruntime"]}, "m.cnna cannot run in onnxruntime"),
        ({"scenarios": [ACCURACY]}, "AccuracyOnly needs `data` with labels"),
        ({"data": 5}, "data: 5 is no text"),
        ({"models": None}, "models: None is no text"),
        ({"models": ["\ud800.onnx"]}, r"models: '\\ud800.onnx' is no text in one line"),
        ({"models": [{"file": "q.onnx", "name": "a\nb"}]}, "is no text in one line"),
        ({"devices": ["http://a b:1"]}, "there is no device 'http://a b:1'"),
        ({"devices": ["grpc://h:1?x"]}, r"there is no device 'grpc://h:1\?x'"),
        ({"threads": 1 << 20}, "threads: 1048576 is not a whole number within 1..1024"),
        ({"clients": 1025}, "clients: 1025 is not a whole number within 1..1024"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(changed: dict[str, Any], said: str) -> None:
    """A user would see a traceback, or hours later figures of something else."""
    with pytest.raises(UserError, match=said) as raised:
        rows(**changed)
    assert "\n" not in str(raised.value)
    with pytest.raises(UserError, match="scenarios: is missing"):
        read_matrix({name: value for name, value in GIVEN.items() if name != "scenarios"})
