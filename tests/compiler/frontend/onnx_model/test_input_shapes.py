"""Sizes that a model leaves open and its user gives."""

import numpy as np
import pytest

from cnna.compiler.compile import compile_model
from cnna.compiler.frontend.model_ports import model_inputs
from cnna.compiler.frontend.onnx_import import load_model, source_of, to_graph
from cnna.compiler.passes.pipeline import REWRITES, run_passes
from cnna.compiler.quantise.quantise import quantise
from cnna.spec.config import preset
from cnna.spec.errors import ModelError

from ...written import images, written

OPEN = """g (float[N,3,height,width] x, float[N,3,height,width] mask) => (float[N,4,oh,ow] y) {
    s = Add (x, mask) a = Conv <pads=[1,1,1,1]> (s, w) y = Relu (a) }"""
ONE = "g (float[N,3,height,width] x) => (float[N,4,height,width] y) { a = Conv <pads=[1,1,1,1]> (x, w) y = Relu (a) }"
WEIGHTS = {"w": (4, 3, 3, 3)}


def read(text, shapes, edit=lambda model: None):
    model = written(text, WEIGHTS)
    edit(model)
    return load_model(model.SerializeToString(), "net.onnx", shapes)


def refused(text, shapes, edit=lambda model: None):
    with pytest.raises(ModelError) as caught:
        read(text, shapes, edit)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def no_shape(model):
    model.graph.input[0].type.tensor_type.ClearField("shape")


def test_sizes_of_one_input_are_those_of_all_that_have_their_names():
    """The user would have to give a second input's sizes although the model says that they equal the first input's."""
    graph = to_graph(read(OPEN, {"x": (1, 3, 6, 8)}))
    assert [graph.tensors[name].shape for name in ("x", "mask", "y")] == [(1, 3, 6, 8), (1, 3, 6, 8), (1, 4, 6, 8)]


@pytest.mark.parametrize("shape", [{"x": (1, 3, 6, 8)}, {"": (1, 3, 6, 8)}])
def test_a_quantised_model_keeps_the_sizes(shape):
    """`cnna compile` would ask for the sizes again. The batch stays free, as in every model."""
    model = read(ONE, shape)
    quantised, _ = quantise(model, images(written(ONE.replace("height", "6").replace("width", "8"), WEIGHTS), 2))
    assert [entry["shape"] for entry in model_inputs(source_of(quantised))] == [[3, 6, 8]]
    artifact = compile_model(load_model(quantised.SerializeToString()), preset("tiny"))
    assert artifact.manifest["model_inputs"] == [{"name": "x", "shape": [3, 6, 8], "dtype": "float32"}]
    assert artifact.manifest["model_outputs"][0]["shape"] == [1, 4, 6, 8]


def test_an_input_without_a_shape():
    """Some exporters leave the shape out: the user could not give it."""
    assert "input 'x' has no shape; give it one with --shape x:1,CHANNELS,ROWS,COLUMNS" in refused(ONE, {}, no_shape)
    assert to_graph(read(ONE, {"x": (1, 3, 5, 5)}, no_shape)).tensors["y"].shape == (1, 4, 5, 5)


def test_sizes_that_are_asked_for():
    """The line must say what to type: every open axis, and the sizes that the model has."""
    line = refused(ONE, {})
    assert line == "net.onnx: axes 2 and 3 of input 'x' have no fixed size; say it with --shape x:1,3,SIZE2,SIZE3"
    assert "axis 3 of input 'x' has no fixed size; say it with --shape x:1,3,4,SIZE3" in refused(ONE.replace("height", "4"), {})
    for unknown in (0, -1):

        def edit(model, unknown=unknown):
            model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = unknown

        assert "axes 2 and 3" in refused(ONE, {}, edit)


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ({"y": (1, 3, 4, 4)}, "--shape: there is no input 'y'; there are x, mask"),
        ({"": (1, 3, 4, 4)}, "--shape: name the input; there are x, mask"),
        ({"x": (2, 3, 4, 4)}, "--shape x:2,3,4,4: the first axis is the batch; give 1 there, `cnna compile --batch 2`"),
        ({"x": (3, 4, 4)}, "--shape x:3,4,4: has 3 sizes, but the input has 4 axes, [N, 3, height, width]"),
        ({"x": (1, 1, 4, 4)}, "--shape x:1,1,4,4: axis 1 has the fixed size 3 in the model, [N, 3, height, width]"),
        ({"x": (1, 3, 0, 4)}, "--shape x:1,3,0,4: sizes must be within 1.."),
        ({"x": (1, 3, 4, 10**30)}, "sizes must be within 1.."),
        ({"x": (1, 3, 4, 4), "mask": (1, 3, 4, 5)}, "the size 'width' is 4 and, in input 'mask', 5"),
        ({"x": (1, 3, 1 << 20, 1 << 20)}, "above 268,435,456 elements"),
    ],
)  # fmt: skip
def test_sizes_that_cannot_be(shapes, said):
    """It would be another network than the user's, or fail somewhere inside with a line about something else."""
    line = refused(OPEN, shapes)
    assert line.startswith("net.onnx: ")
    assert said in line


def test_a_fixed_size_may_be_said_again():
    """A script that gives all sizes of all its models would fail; a model for a batch of several can be given 1 too."""
    fixed = ONE.replace("height", "4").replace("width", "4")
    for text in (fixed, fixed.replace("N", "2")):
        assert np.prod(to_graph(read(text, {"x": (1, 3, 4, 4)})).tensors["y"].shape) == 64


TWO = """g (float[?,3,?,?] x, float[?,3,?,?] mask) => (float[?,4,?,?] y, float[?,3,?,?] z) {
    a = Conv <pads=[1,1,1,1]> (x, w) y = Relu (a) z = Relu (mask) }"""


def named(name):
    """Gives every open size of a model the same name."""

    def edit(model):
        for value in (*model.graph.input, *model.graph.output):
            for dim in value.type.tensor_type.shape.dim:
                if not dim.HasField("dim_value"):
                    dim.dim_param = name

    return edit


@pytest.mark.parametrize("name", ["?", "", "unk__12", "*", "-1", "None", "unknown", "UNK", "unk_3", "null", "undefined"])
def test_what_stands_for_an_unknown_size_is_no_name(name):
    """All sizes of PaddlePaddle's exports are called `?`: rows and columns would have to be equal, and the batch too."""
    graph = to_graph(read(TWO, {"x": (1, 3, 6, 8), "mask": (1, 3, 5, 7)}, named(name)))
    assert [graph.tensors[name].shape for name in ("x", "y", "z")] == [(1, 3, 6, 8), (1, 4, 6, 8), (1, 3, 5, 7)]
    assert "axes 2 and 3 of input 'mask' have no fixed size" in refused(TWO, {"x": (1, 3, 6, 8)}, named(name))


@pytest.mark.parametrize("names", [("h", "w"), ("s", "s")])
@pytest.mark.parametrize("sizes", ["-1, 144", "1, 144", "0, 4, 6, 3, 2"])
def test_a_size_of_the_export_in_a_constant_is_refused_for_other_sizes(sizes, names):
    """Told to export it again as it is, a user would get the same line; and onnx says no node where a node has no name."""
    reshape = f"s = Constant <value_ints=[{sizes}]> () y = Reshape (a, s)"
    text = f"g (float[N,3,{names[0]},{names[1]}] x) => (float y) {{ a = Conv <pads=[1,1,1,1]> (x, w) {reshape} }}"
    assert np.prod(to_graph(read(text, {"x": (1, 3, 6, 6)})).tensors["y"].shape) == 144
    with pytest.raises(ModelError) as found:
        run_passes(to_graph(read(text, {"x": (1, 3, 6, 8)})), REWRITES)
    said = str(found.value)
    assert "Reshape:y" in said
    assert "export it for th" in said
    assert ("the size 's' is 6 and, in input 'x', 8; give both the same size" in said) == (names[0] == "s" and "--shape" in said)


def test_a_name_of_two_sizes_is_a_warning():
    """Exporters let users call all open sizes alike, batch included. The sizes that were given are those that count."""
    model = written(TWO, WEIGHTS)
    named("dynamic")(model)
    said: list[str] = []
    read_again = load_model(model.SerializeToString(), "net.onnx", {"x": (1, 3, 6, 8), "mask": (1, 3, 5, 7)}, warn=said.append)
    assert said == [
        "net.onnx: --shape: the size 'dynamic' is 6 and, in input 'x', 8; the model names both alike, but each axis has the size "
        "that was given"
    ]
    assert [entry["shape"] for entry in model_inputs(source_of(read_again))] == [[3, 6, 8], [3, 5, 7]]
    graph = to_graph(read_again)
    assert [graph.tensors[name].shape for name in ("y", "z")] == [(1, 4, 6, 8), (1, 3, 5, 7)]
    assert "axes 2 and 3 of input 'mask' have no fixed size" in refused(TWO, {"x": (1, 3, 6, 8)}, named("dynamic"))
    load_model(model.SerializeToString(), "net.onnx", {"x": (1, 3, 6, 6)}, warn=said.append)
    assert len(said) == 1, "one size is no reason for a warning"
    assert model_inputs(source_of(load_model(model.SerializeToString(), "net.onnx", {"x": (1, 3, 6, 6)})))[1]["shape"] == [3, 6, 6]
