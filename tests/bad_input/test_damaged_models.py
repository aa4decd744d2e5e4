"""Structurally damaged ONNX gives one line with file and fault and exit code 2; no internal error, and no failure at run."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from cnna.cli.main import main
from cnna.spec.artifact import load

from .nets import NETS, answer, samples

Edit = Callable[[ModelProto], object]


@pytest.fixture(scope="module")
def whole() -> dict[str, ModelProto]:
    """Each network, undamaged."""
    return {name: net() for name, net in NETS.items()}


def node_of(model: ModelProto, output: str) -> onnx.NodeProto:
    return next(node for node in model.graph.node if output in node.output)


def constant(model: ModelProto, name: str) -> TensorProto:
    return next(tensor for tensor in model.graph.initializer if tensor.name == name)


def put(name: str, change: Callable[[np.ndarray], object]) -> Edit:
    """Gives a constant another value."""
    return lambda m: constant(m, name).CopyFrom(
        numpy_helper.from_array(np.asarray(change(numpy_helper.to_array(constant(m, name)))), name)
    )


def huge_bias_scale(model: ModelProto) -> None:
    """Gives two scales values whose product float32 does not hold."""
    put("s0", lambda v: v * 0 + np.float32(3e38))(model)
    put("sw1", lambda v: v * 0 + np.float32(2))(model)


def attribute(output: str, name: str, value: object) -> Edit:
    """Gives a node's attribute another value."""

    def edit(model: ModelProto) -> None:
        node = node_of(model, output)
        for entry in [entry for entry in node.attribute if entry.name == name]:
            node.attribute.remove(entry)
        node.attribute.append(helper.make_attribute(name, value))

    return edit


def short(name: str) -> Edit:
    """Cuts the last byte off a tensor's data."""

    def edit(model: ModelProto) -> None:
        constant(model, name).raw_data = constant(model, name).raw_data[:-1]

    return edit


def renamed_input(output: str, index: int, name: str) -> Edit:
    return lambda m: node_of(m, output).input.__setitem__(index, name)


def text_output(model: ModelProto) -> None:
    """A model that answers with text would compile, and then end the run in numpy's own message."""
    model.graph.node.append(helper.make_node("Cast", ["y"], ["words"], to=TensorProto.STRING))
    model.graph.output.append(helper.make_tensor_value_info("words", TensorProto.STRING, None))


def bare_text_output(model: ModelProto) -> None:
    text_output(model)
    model.graph.output[-1].ClearField("type")


def refers(model: ModelProto) -> None:
    node_of(model, "p1").attribute[0].ref_attr_name = "elsewhere"


def constant_output(model: ModelProto) -> None:
    model.graph.output.append(helper.make_tensor_value_info("w1", TensorProto.FLOAT, [8, 3, 3, 3]))


def computed_constant_output(model: ModelProto) -> None:
    model.graph.node.append(helper.make_node("Identity", ["w1"], ["same"], "same"))
    model.graph.output.append(helper.make_tensor_value_info("same", TensorProto.FLOAT, [8, 3, 3, 3]))


def shows_its_input(model: ModelProto) -> None:
    del model.graph.output[:]
    model.graph.output.append(model.graph.input[0])


def enormous(model: ModelProto) -> None:
    model.graph.initializer.append(numpy_helper.from_array(np.array([2**20, 2**10, 1, 5]), "sizes"))
    model.graph.node.append(helper.make_node("Expand", ["y", "sizes"], ["grown"], "grown"))
    model.graph.output.append(helper.make_tensor_value_info("grown", TensorProto.FLOAT, None))


def nan_constant(model: ModelProto) -> None:
    model.graph.node.append(helper.make_node("Constant", [], ["k"], "k", value_float=float("nan")))
    node_of(model, "m1").input[1] = "k"


def nan_tensor(model: ModelProto) -> None:
    value = numpy_helper.from_array(np.array([np.nan], np.float16))
    model.graph.node.append(helper.make_node("Constant", [], ["k"], "k", value=value))
    node_of(model, "m1").input[1] = "k"


def nan_slope(model: ModelProto) -> None:
    node_of(model, "r1").op_type = "LeakyRelu"
    attribute("r1", "alpha", float("nan"))(model)


def slopes(shape: tuple[int, ...], made_by: str = "Identity") -> Edit:
    """Makes the Relu a PRelu with slopes of that shape, which a node of that type makes."""

    def edit(model: ModelProto) -> None:
        model.graph.initializer.append(numpy_helper.from_array(np.full(shape, 0.25, np.float32), "numbers"))
        model.graph.node.insert(0, helper.make_node(made_by, ["numbers"], ["slopes"]))
        node_of(model, "r1").op_type = "PRelu"
        node_of(model, "r1").input.append("slopes")

    return edit


def transposed(model: ModelProto) -> None:
    """Makes the pointwise Conv a ConvTranspose with a bias too short."""
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(7, np.float32), "offsets"))
    node_of(model, "e1").op_type = "ConvTranspose"
    node_of(model, "e1").input.append("offsets")


CASES: dict[str, tuple[str, Edit, tuple[str, ...]]] = {  # for each fault: network, damage, words of the line
    "axis outside": ("qdq", attribute("w1.1.1:dq", "axis", 7), ("axis 7", "DequantizeLinear")),
    "axis below": ("qdq", attribute("w1.1.1:dq", "axis", -5), ("axis -5", "DequantizeLinear")),
    "axis of another length": ("qdq", attribute("w1.1.1:dq", "axis", 1), ("axis 1", "3 elements")),
    "no scale": ("qlinear", put("s0", lambda v: v.reshape(1)[:0]), ("s0", "empty")),
    "no scales of weights": ("qlinear", put("sw1", lambda v: v[:0]), ("sw1", "empty")),
    "no zero point": ("qlinear", put("z0", lambda v: v.reshape(1)[:0]), ("z0", "empty")),
    "too many zero points": ("qlinear", put("zw1", lambda v: np.tile(v, 2)), ("zw1", "16 values")),
    "negative scale": ("qlinear", put("s0", lambda v: -v), ("s0", "above 0")),
    "infinite weights": ("qlinear", put("sw1", lambda v: v + np.float32(3e38)), ("exceed the range of float32",)),
    "no weights": ("float", put("w1", lambda v: v[:0]), ("c1", "empty")),
    "bias of another length": ("qlinear", put("b1", lambda v: v[:7]), ("its bias 'b1' has shape [7]; it must be [8]",)),
    "too few scales of weights": ("qlinear", put("sw1", lambda v: v[:7]), ("(QLinearConv)", "'sw1'", "8 values")),
    "scale of a bias": ("qlinear", huge_bias_scale, ("scale 's0 * sw1' is not finite",)),
    "no scale of Q and DQ": ("qdq", put("x:dq:scale", lambda v: v.reshape(1)[:0]), ("x:dq:scale", "empty")),
    "a byte short": ("float", short("w1"), ("w1", "cannot be read")),
    "a byte of int64 short": ("float", short("target"), ("target", "cannot be read")),
    "a byte of int8 short": ("qlinear", short("w1"), ("w1", "cannot be read")),
    "two limits": ("float", put("high", lambda v: np.tile(v.reshape(1), 2)), ("l1", "2 values")),
    "offset of another length": ("float", put("b4", lambda v: v[:4]), ("f1",)),
    "offset of three axes": ("float", put("b4", lambda v: v.reshape(1, 1, 5)), ("f1",)),
    "bias of four axes": ("float", put("b1", lambda v: v.reshape(1, 8, 1, 1)), ("c1", "[1, 8, 1, 1]", "[8]")),
    "gain of another length": ("float", put("gain", lambda v: np.tile(v, 2)), ("n1", "[16]", "[8]")),
    "kernel beyond the map": ("float", attribute("a1", "kernel_shape", [9, 9]), ("a1", "larger than its padded input")),
    "input that a node makes": ("float", renamed_input("n1", 0, "y"), ("cycle",)),
    "node that makes an input": ("float", lambda m: node_of(m, "c1").output.__setitem__(0, "x"), ("x",)),
    "constant as output": ("float", constant_output, ("output 'w1'", "take it off")),
    "output that nothing makes": ("float", lambda m: m.graph.output[1].__setattr__("name", "t2"), ("output 't2'", "no node")),
    "output of type 77": ("qdq", lambda m: m.graph.output[0].type.tensor_type.__setattr__("elem_type", 77), ("'y'", "77")),
    "output of type 0": ("qdq", lambda m: m.graph.output[0].type.tensor_type.__setattr__("elem_type", 0), ("'y'", "type 0")),
    "input of type 77": ("float", lambda m: m.graph.input[0].type.tensor_type.__setattr__("elem_type", 77), ("'x'", "77")),
    "weights of type 77": ("float", lambda m: constant(m, "w1").__setattr__("data_type", 77), ("w1", "77")),
    "weights of type 0": ("float", lambda m: constant(m, "w1").__setattr__("data_type", 0), ("w1", "type 0")),
    "output that is no tensor": ("float", lambda m: m.graph.output[0].type.sequence_type.SetInParent(), ("'y'", "no tensor")),
    "output of text": ("qdq", text_output, ("output 'words'", "STRING", "take it off")),
    "output of text, type left out": ("qdq", bare_text_output, ("output 'words'", "STRING", "take it off")),
    "attribute of no function": ("float", refers, ("p1", "refers")),
    "reshape of other size": ("float", attribute("j1", "axis", 2), ("v1", "8 elements")),
    "missing operand": ("float", renamed_input("j1", 1, ""), ("Concat", "missing")),
    "operator of nobody": ("qlinear", lambda m: node_of(m, "q6").__setattr__("domain", "com.microsoft"), ("Flatten",)),
    "outputs that are inputs": ("qdq", shows_its_input, ("nothing is computed: all its outputs ('x') are inputs",)),
    "no outputs": ("qdq", lambda m: m.graph.ClearField("output"), ("list of outputs is empty",)),
    "slope that is NaN": ("float", nan_slope, ("r1", "'alpha'", "NaN")),
    "constant attribute that is NaN": ("float", nan_constant, ("k", "'value_float'", "NaN")),
    "tensor of an attribute that is NaN": ("float", nan_tensor, ("k", "'value'", "NaN")),
    "infinite factor": ("float", attribute("f1", "alpha", float("-inf")), ("f1", "'alpha'", "infinity")),
    "slopes of other channels": ("float", slopes((7, 1, 1)), ("PRelu", "[7, 1, 1]", "[1, 8, 4, 4]")),
    "slopes of five axes": ("float", slopes((1, 1, 8, 1, 1)), ("PRelu", "[1, 1, 8, 1, 1]", "[1, 8, 4, 4]")),
    "computed slopes of other channels": ("float", slopes((7, 1, 1), "Relu"), ("PRelu", "[7, 1, 1]", "[1, 8, 4, 4]")),
    "bias of a ConvTranspose": ("float", transposed, ("ConvTranspose", "[7]", "[8]")),
    "no input": ("float", lambda m: m.graph.ClearField("input"), ("input",)),
    "enormous tensor": ("float", enormous, ("grown", "elements at most")),
    "enormous image": ("float", lambda m: m.graph.input[0].type.tensor_type.shape.dim[2].__setattr__("dim_value", 2**62), ("'x'",)),
}


@pytest.mark.parametrize("case", CASES)
def test_damage_is_named(whole: dict[str, ModelProto], tmp_path: Path, refused: Callable[..., str], case: str) -> None:
    """Faults that ONNX's checker accepts would be internal errors, artifacts that do not run, or blamed on nodes of our making."""
    kind, edit, words = CASES[case]
    model = ModelProto()
    model.CopyFrom(whole[kind])
    edit(model)
    path = tmp_path / "bad.onnx"
    path.write_bytes(model.SerializeToString())
    np.save(tmp_path / "calib.npy", samples())
    if kind == "float":
        line = refused("quantize", path, "--calib", tmp_path / "calib.npy", "-o", "out")
    else:
        line = refused("compile", path, "--config", "tiny", "-o", "out")
    assert "bad.onnx" in line
    assert all(word in line for word in words), line
    own = {name for node in model.graph.node for name in (node.name, *node.output, f"{node.op_type}:{next(iter(node.output), '')}")}
    assert own.issuperset(re.findall(r"node '(.+?)'", line)), f"a node that the user's model does not have: {line}"


def bare_shapes(model: ModelProto) -> None:
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")


def bare_types(model: ModelProto) -> None:
    for value in model.graph.output:
        value.ClearField("type")


def output_twice(model: ModelProto) -> None:
    """onnxruntime answers an output as often as it is listed."""
    model.graph.output.append(model.graph.output[0])


def empty_output(model: ModelProto) -> None:
    """An output of no rows, which onnxruntime answers too."""
    for name, rows in (("first", 2), ("last", 1)):
        model.graph.initializer.append(numpy_helper.from_array(np.array([rows]), name))
    model.graph.initializer.append(numpy_helper.from_array(np.array([2]), "rows"))
    model.graph.node.append(helper.make_node("Slice", ["t", "first", "last", "rows"], ["none"], "none"))
    model.graph.output.append(helper.make_tensor_value_info("none", TensorProto.FLOAT, None))


def old_version(version: int) -> Edit:
    return lambda m: m.__setattr__("ir_version", version)


@pytest.mark.parametrize("kind", NETS)
@pytest.mark.parametrize("edit", [bare_shapes, bare_types, output_twice, old_version(3), old_version(1)])
def test_what_may_be_left_out_is_inferred(whole: dict[str, ModelProto], kind: str, edit: Edit) -> None:
    """onnxruntime runs models whose outputs lack shape or type, and old ones whose weights are no inputs: so must cnna."""
    bare = ModelProto()
    bare.CopyFrom(whole[kind])
    edit(bare)
    expected, got = answer(kind, whole[kind]), answer(kind, bare)
    assert expected.keys() == got.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(got[name], value)
        assert got[name].shape == value.shape


@pytest.mark.parametrize("edit", [output_twice, empty_output])
def test_a_file_of_what_compiles_can_be_written(whole: dict[str, ModelProto], tmp_path: Path, edit: Edit) -> None:
    """`cnna compile` would end in its own check of the file that it is about to write, and advise to compile again."""
    model = ModelProto()
    model.CopyFrom(whole["qdq"])
    edit(model)
    path = tmp_path / "q.onnx"
    path.write_bytes(model.SerializeToString())
    assert main(["compile", str(path), "--config", "tiny", "-o", str(tmp_path / "m.cnna")]) == 0
    names = [output["name"] for output in load(tmp_path / "m.cnna").manifest["model_outputs"]]
    assert names == list(dict.fromkeys(value.name for value in model.graph.output))


def test_a_computed_constant_is_an_output_like_any_other(whole: dict[str, ModelProto]) -> None:
    """onnxruntime answers it. Folded away, its name would stand for nothing; each of the three samples must have it."""
    model = ModelProto()
    model.CopyFrom(whole["float"])
    computed_constant_output(model)
    wanted = numpy_helper.to_array(constant(model, "w1"))
    np.testing.assert_array_equal(answer("float", model)["same"], np.stack([wanted] * 3))


def test_a_shape_that_nobody_knows(whole: dict[str, ModelProto]) -> None:
    """ONNX infers nothing behind an operator of another domain: its output would pass for a single number, which fits none."""
    model = ModelProto()
    model.CopyFrom(whole["float"])
    node_of(model, "y").op_type, node_of(model, "y").domain = "BiasGelu", "com.microsoft"
    node_of(model, "y").ClearField("attribute")
    node_of(model, "y").input.append("b4")
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    assert answer("float", model)["t"].shape == (3, 8, 4, 4)
