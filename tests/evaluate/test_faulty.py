"""Data, functions and options that are at fault: each is a line that says where, and nothing is printed beside it."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cnna.evaluate.evaluate import evaluate
from cnna.evaluate.result import Evaluation
from cnna.spec.errors import DataError, UserError

from . import made

SCALE = {"scale": 1 / 255}


@pytest.fixture(autouse=True)
def is_quiet(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """What a library or numpy prints would stand between the lines of a user's own program."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield
    assert capfd.readouterr() == ("", "")


def of_pictures(folder: Path, data: Path, **options: Any) -> Evaluation:
    """Measures the classifier of colours."""
    return evaluate(made.colours(folder / "m.onnx"), data, preprocess=SCALE, **options)


CSV: dict[str, int | str] = {
    "file,label\rred.png,0\rblue.png,2\r": 2,
    "\n\nfile,label\n\nred.png,0\n": 1,
    "file,label\nred.png,0.0\n": 1,
    "file,label\nred.png,1.5\n": r"d.csv: line 2: the label '1.5' is no whole number from 0 up; --labels F",
    "file,label\nred.png,-1\n": r"d.csv: line 2: the label '-1' is no whole number from 0 up",
    'file,note,label\nred.png,"a\nb",0\nred.png,c,x\n': r"d.csv: line 4: the label 'x'",
    "file,label\n,0\n": r"d.csv: line 2: names no file",
    "file,label\na\0b.png,0\n": r"a.b.png: no such file; --skip-unreadable",
    f"file,label\n{'a' * 300}.png,0\n": r"aaa.png: no such file; --skip-unreadable",
}


@pytest.mark.parametrize("text", CSV, ids=lambda text: repr(text[:40]))
def test_a_csv(tmp_path: Path, text: str) -> None:
    """Spreadsheets write such files; a line must name the line that is at fault in an editor."""
    made.picture(tmp_path / "red.png", (255, 0, 0))
    made.picture(tmp_path / "blue.png", (0, 0, 255))
    (tmp_path / "d.csv").write_bytes(text.encode())
    expected = CSV[text]
    if isinstance(expected, int):
        found = of_pictures(tmp_path, tmp_path / "d.csv")
        assert (found.samples, found.models[0].estimates["top1"].value) == (expected, 1)
        return
    with pytest.raises(DataError, match=expected):
        of_pictures(tmp_path, tmp_path / "d.csv")


@pytest.mark.parametrize("columns", [["a"], ["a", "b", "c"], ["a", ""], "a", [1, 2]])
def test_columns_are_two(tmp_path: Path, columns: Any) -> None:
    """A third name would be ignored, and one name alone a traceback."""
    (tmp_path / "d.csv").write_text("a,b\nred.png,0\n")
    with pytest.raises(UserError, match=r"--columns .*: name two columns, as in file,label"):
        of_pictures(tmp_path, tmp_path / "d.csv", columns=columns)


def test_labels_in_json_are_a_list(tmp_path: Path) -> None:
    """Otherwise the whole text would be the name of one class."""
    (tmp_path / "d.csv").write_text("file,label\nred.png,red\n")
    (tmp_path / "l.json").write_text('{"0": "red"}')
    with pytest.raises(DataError, match=r"l.json: in JSON, names are a list of texts"):
        of_pictures(tmp_path, tmp_path / "d.csv", labels=tmp_path / "l.json")


@pytest.mark.parametrize("name", ["a" * 5000, "a\0b"])
def test_a_path_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    """The system's own error for such a name is a traceback."""
    with pytest.raises(DataError, match=r"no such file or folder"):
        of_pictures(tmp_path, tmp_path / name)


@pytest.mark.parametrize("value", [np.inf, np.nan, -1.0])
def test_a_class_that_is_no_number(tmp_path: Path, value: float) -> None:
    """Infinity is equal to its whole part, but no class."""
    data = made.arrays(tmp_path / "d.npz", x=np.ones((2, 3), np.float32), y=np.array([0, value]))
    with pytest.raises(DataError, match=r"y is float64 \[2\]; it must hold the number of one class"):
        evaluate(made.echo(tmp_path / "m.onnx", 3), data)


def test_arrays_that_are_left_out_are_said_once(tmp_path: Path) -> None:
    """A note that is printed is seen by nobody who calls a function, and two models would say it twice."""
    data = made.arrays(tmp_path / "d.npz", x=np.ones((2, 3), np.float32), y=np.array([0, 1]), other=np.zeros(2))
    said: list[str] = []
    evaluate([made.echo(tmp_path / "m.onnx", 3), made.negated(tmp_path / "n.onnx", 3)], data, say=said.append)
    assert said == [f"note: {data}: ignoring other"]


def exits(answers: Any, target: Any) -> None:
    """Ends the process, as a script's own `main` may."""
    sys.exit(3)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (exits, r"--metric exits: SystemExit: 3 \(line \d+\)"),
        (lambda answers, target: 10**400, r"--metric <lambda>: gave 1000.* for <lambda>; it must give a number"),
        (max, r"--metric max: \w+Error: "),
        (5, r"--metric metric: TypeError: 'int' object is not callable"),
    ],
)
def test_a_function_that_fails(tmp_path: Path, metric: Any, expected: str) -> None:
    """A function of a user's would end the user's program, or the fault would be shown as ours."""
    data = made.arrays(tmp_path / "d.npz", x=np.ones((2, 3), np.float32), y=np.array([0, 1]))
    with pytest.raises(DataError, match=expected):
        evaluate(made.echo(tmp_path / "m.onnx", 3), data, metric=metric)


def test_a_file_that_ends_the_process(tmp_path: Path) -> None:
    """A script without a guard would end the command with its own exit code."""
    (tmp_path / "own.py").write_text("import sys\nsys.exit(0)\n")
    data = made.arrays(tmp_path / "d.npz", x=np.ones((2, 3), np.float32), y=np.array([0, 1]))
    with pytest.raises(UserError, match=r"own.py cannot be read: SystemExit: 0"):
        evaluate(made.echo(tmp_path / "m.onnx", 3), data, metric=f"{tmp_path}/own.py:f")


def test_infinite_figures_count_as_nan(tmp_path: Path) -> None:
    """A mean of infinity has no error, and a journal, which is JSON, cannot hold it: going on would give another figure."""
    data = made.arrays(tmp_path / "d.npz", x=np.array([[0, 1], [2, 1]], np.float32), y=np.array([0, 1]))
    options: dict[str, Any] = {"journal": tmp_path / "j", "metric": lambda answers, target: np.inf if target else 2}
    for _ in range(2):
        found = evaluate(made.echo(tmp_path / "m.onnx", 2), data, **options)
        assert (found.models[0].estimates["<lambda>"].value, found.models[0].nan) == (2, 1)


def test_masks_below_zero(tmp_path: Path) -> None:
    """Such a pixel would count as one of the last class, unless it is the one that does not count."""
    x = np.zeros((1, 2, 2, 2), np.float32)
    data = made.arrays(tmp_path / "d.npz", x=x, y=np.array([[[0, -1], [0, 0]]]))
    model = made.echo(tmp_path / "m.onnx", 2, 2, 2)
    with pytest.raises(DataError, match=r"a mask has class -1; classes are numbers from 0 up"):
        evaluate(model, data)
    assert evaluate(model, data, ignored=-1).models[0].estimates["pixels"].value == 1


POINTS: dict[str, dict[str, Any]] = {
    "keypoints is <U": {"keypoints": np.full((2, 2, 2), "a")},
    "keypoints is complex128": {"keypoints": np.ones((2, 2, 2), complex)},
    "has a point that is not finite": {"keypoints": np.full((2, 2, 2), np.nan)},
    "areas is <U": {"keypoints": np.ones((2, 2, 2)), "areas": np.full(2, "a")},
    "areas has a number that is no area": {"keypoints": np.ones((2, 2, 2)), "areas": np.array([1, -1])},
}


@pytest.mark.parametrize("expected", POINTS)
def test_points_that_are_none(tmp_path: Path, expected: str) -> None:
    """Figures above 100 %, or of half of the points, would come of them."""
    data = made.arrays(tmp_path / "d.npz", x=np.ones((2, 2, 2), np.float32), **POINTS[expected])
    with pytest.raises(DataError, match=expected):
        evaluate(made.echo(tmp_path / "m.onnx", 2, 2), data)


def test_points_at_infinity_go_on(tmp_path: Path) -> None:
    """A journal cannot hold infinity: an evaluation that goes on from it must give what it gave before."""
    data = made.arrays(tmp_path / "d.npz", x=np.array([[1, 0], [1, 1]], np.float32), keypoints=np.zeros((2, 1, 2)))
    nodes = [made.helper.make_node("Reciprocal", ["x"], ["y"])]
    model = made.save(tmp_path / "m.onnx", nodes, (2,), ["y"])
    first, again = (evaluate(model, data, journal=tmp_path / "j").figures() for _ in range(2))
    assert first["models"][0]["nan"] == 1
    assert first["models"][0]["metrics"] == again["models"][0]["metrics"]


def test_vectors_of_several_sizes(tmp_path: Path) -> None:
    """They have no cosine; numpy's error would be a traceback."""
    data = made.arrays(tmp_path / "d.npz", x=np.array([[1, 1], [1, 0]], np.float32), y=np.zeros(2, int))
    model = made.save(tmp_path / "m.onnx", [made.helper.make_node("NonZero", ["x"], ["n"]), cast()], (2,), ["y"])
    with pytest.raises(DataError, match=r"answers are vectors of 2 and of 4 numbers"):
        evaluate(model, data, task="embedding")


def cast() -> Any:
    """Integers as floats."""
    return made.helper.make_node("Cast", ["n"], ["y"], to=made.TensorProto.FLOAT)


def coco(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Two pictures with an object of two points each, changed."""
    for name in "ab":
        made.picture(folder / f"{name}.png", (255, 0, 0))
    images = [{"id": number, "file_name": f"{name}.png", "width": 8, "height": 8} for number, name in enumerate("ab")]
    objects = [{"image_id": number, "category_id": 1, "bbox": [0, 0, 4, 4], "keypoints": [1, 1, 2, 3, 3, 1]} for number in range(2)]
    whole: dict[str, Any] = {"images": images, "annotations": objects, "categories": [{"id": 1, "name": "thing"}]}
    change(whole)
    (folder / "a.json").write_text(json.dumps(whole))
    return folder / "a.json"


COCO: dict[str, Callable[[dict[str, Any]], object]] = {
    "annotation 0: bbox .* is no box": lambda whole: whole["annotations"][0].update(bbox=[10**400, 1, 1, 1]),
    "annotation 1: bbox .* is no box": lambda whole: whole["annotations"][1].update(bbox=[0, 0, 1e300, 1]),
    "annotation 0: iscrowd 'no' is neither 0 nor 1": lambda whole: whole["annotations"][0].update(iscrowd="no"),
    "category 0: its name None is no text": lambda whole: whole["categories"][0].update(name=None),
    "a{300}.png: no such picture": lambda whole: whole["images"][0].update(file_name="a" * 300 + ".png"),
}


@pytest.mark.parametrize("expected", COCO)
def test_annotations(tmp_path: Path, expected: str) -> None:
    """Each of them was a traceback, or a figure of something else."""
    with pytest.raises(DataError, match=expected):
        of_pictures(tmp_path, coco(tmp_path, COCO[expected]))


def centres(path: Path) -> Path:
    """A model of pictures that answers two points."""
    nodes = [
        made.helper.make_node("GlobalAveragePool", ["x"], ["p"]),
        made.helper.make_node("Concat", ["p", "p"], ["c"], axis=1),
        made.helper.make_node("Slice", ["c", "0", "4", "1"], ["s"]),
        made.helper.make_node("Flatten", ["s"], ["y"]),
    ]
    numbers = [("0", 0), ("4", 4), ("1", 1)]
    constants = [made.helper.make_node("Constant", [], [name], value_ints=[value]) for name, value in numbers]
    return made.save(path, [*constants, *nodes], (3, 8, 8), ["y"])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda whole: whole["annotations"][1].update(keypoints=[1, 1, 2]), r"m.onnx: gives 2 points, but a sample has 1"),
        (lambda whole: whole["annotations"][1].update(bbox=[0, 0, 1e6, 1e6]), r"a box of 1e\+06x1e\+06 pixels is too large"),
    ],
)
def test_objects_with_points(tmp_path: Path, change: Any, expected: str) -> None:
    """The first sample is not all of them, and a box may be of any size."""
    with pytest.raises(DataError, match=expected):
        evaluate(centres(tmp_path / "m.onnx"), coco(tmp_path, change), task="keypoints", preprocess=SCALE)


def test_pictures_and_masks_that_are_not_there_are_left_out(tmp_path: Path) -> None:
    """They cannot be read, so that --skip-unreadable must count them as it counts others."""
    data = coco(tmp_path, lambda whole: whole["images"][0].update(file_name="lost.png"))
    options: dict[str, Any] = {"preprocess": SCALE, "skip_unreadable": True}
    found = evaluate(centres(tmp_path / "m.onnx"), data, task="keypoints", **options)
    assert (found.samples, list(found.skipped)) == (1, ["lost.png, object 0"])
    for folder in ("images", "masks"):
        (tmp_path / "d" / folder).mkdir(parents=True)
    for name in "ab":
        Image.new("RGB", (8, 8)).save(tmp_path / "d" / "images" / f"{name}.png")
    Image.new("L", (8, 8)).save(tmp_path / "d" / "masks" / "a.png")
    found = evaluate(made.echo(tmp_path / "e.onnx", 3, 8, 8), tmp_path / "d", **options)
    assert (found.samples, list(found.skipped)) == (1, ["b.png"])
