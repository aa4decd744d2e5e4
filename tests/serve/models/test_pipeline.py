"""`pipeline.yaml`: what it may say, and the one line with file and step for what it may not."""

from pathlib import Path

import pytest

from cnna.serve.models.pipeline import pipeline_of
from cnna.spec.errors import UserError

GOOD = """
inputs: {x: {type: float32, shape: [-1, 3]}}
steps:
  last: {model: m, version: 2, inputs: {a: middle.y, b: first.y}}
  middle: {onnx: scale.onnx, inputs: {x: first.y}}
  first: {function: "own.steps:begin", inputs: {x: x}, outputs: {y: {type: int64, shape: [-1, -1]}}}
outputs: {z: last.z, y: first.y}
"""


def read(folder: Path, text: str) -> object:
    path = folder / "pipeline.yaml"
    path.write_text(text)
    return pipeline_of(path)


def test_steps_stand_behind_those_that_they_need(tmp_path: Path) -> None:
    """A step would be checked, and asked, before what it needs is there."""
    path = tmp_path / "pipeline.yaml"
    path.write_text(GOOD)
    found = pipeline_of(path)
    assert [step.name for step in found.steps] == ["first", "middle", "last"]
    assert [step.kind for step in found.steps] == ["function", "onnx", "model"]
    assert found.steps[2].version == "2"
    assert found.steps[2].after == {"first", "middle"}
    assert found.steps[0].outputs[0].served_shape == [-1, -1]
    assert found.models() == {"m"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("steps:", "stages:", "unknown key 'stages'"),
        ("model: m, version", "model: m, verison", "step last: unknown key 'verison'"),
        ("onnx: scale.onnx, ", "", "step middle: must have one of model, function, onnx"),
        ("onnx: scale.onnx, ", "onnx: ../scale.onnx, ", "step middle: onnx: '../scale.onnx' must be the name of a file in"),
        ("onnx: scale.onnx, ", "onnx: scale.onnx, model: m, ", "step middle: must have one of"),
        ("own.steps:begin", "own.steps", "step first: function: 'own.steps' is not like package.module:function"),
        ("own.steps:begin", "../steps:begin", "step first: function: '../steps:begin' is not like"),
        ("version: 2", "version: newest", "step last: version: 'newest' must be a positive integer"),
        ("a: middle.y", "a: centre.y", "step last: centre.y: there is no step 'centre'; there are last, middle, first"),
        ("{x: x}", "{x: picture}", "step first: the pipeline has no input 'picture'; there are x"),
        ("{x: x}", "{x: last.z}", "step last: last, first wait for each other"),
        ("{x: first.y}", "{x: middle.y}", "middle wait for each other"),
        ("z: last.z", "z: end.z", "output z: end.z: there is no step 'end'"),
        ("z: last.z", "z: 3", "output z: 3 is no source"),
        ("{y: {type: int64, shape: [-1, -1]}}", "{y: int64}", "step first: outputs: y: 'int64' is not like {type: float32"),
        ("type: int64", "type: INT64", "there is no type 'INT64'; there are bool,"),
        (", outputs: {y: {type: int64, shape: [-1, -1]}}", "", "step first: outputs: functions declare them"),
        ("shape: [-1, 3]", "shape: [1, 3]", "inputs: x: {'type': 'float32', 'shape': [1, 3]} is not like"),
        ("outputs: {z: last.z, y: first.y}", "", "outputs: must be a table of names"),
        ("shape: [-1, 3]", "shape: [-1, 3, 99999999999]", "inputs: x: a sample has more than 16,777,216 values"),
        ("onnx: scale.onnx, ", "onnx: '..', ", "step middle: onnx: '..' must be the name of a file in"),
        ("  last:", "  la-st:", "step la-st: a step's name has letters"),
    ],
)
def test_a_mistake_is_one_line_with_file_and_step(tmp_path: Path, old: str, new: str, said: str) -> None:
    """It would be found by the first client, and nobody would know where to look."""
    assert old in GOOD
    with pytest.raises(UserError) as caught:
        read(tmp_path, GOOD.replace(old, new, 1))
    assert str(caught.value).startswith(str(tmp_path / "pipeline.yaml"))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
