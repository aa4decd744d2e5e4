"""Models that are no sound ONNX: one line names the node and says what helps."""

import math
import re

import pytest
from onnx import ModelProto, TensorProto, ValueInfoProto, helper

from cnna.compiler.frontend.onnx_import import load_model
from cnna.spec.errors import ModelError

from ...written import written

MAP = "float[N,3,6,6]"
TEXTS = {
    "y = Nonsense (x)": r"node 'y' \(Nonsense\): opset 17 of ONNX has no such operator; replace it",
    "y = Swish (x)": r"node 'y' \(Swish\): opset 17 of ONNX has no such operator; export the model with opset 24 or above",
    "y = LeakyRelu <alpha=3> (x)": r"node 'y' \(LeakyRelu\): attribute 'alpha' has the type INT, not FLOAT; export",
    "y = Softmax <axis=1.0> (x)": r"node 'y' \(Softmax\): attribute 'axis' has the type FLOAT, not INT; export",
    "y = Transpose <perm=2> (x)": r"node 'y' \(Transpose\): attribute 'perm' has the type INT, not INTS; export",
    "y = Relu (q)": r"node 'y' \(Relu\): it reads 'q', which nothing makes; export",
    "a = Relu (x) a = Neg (x) y = Add (a, a)": r"node 'a' \(Neg\): it makes 'a', which is made before already; rename",
    "x = Relu (x) y = Neg (x)": r"node 'x' \(Relu\): it makes 'x', which is made before already; rename",
}


def refusal(model: ModelProto) -> str:
    with pytest.raises(ModelError) as found:
        load_model(model.SerializeToString(), "net.onnx")
    said = str(found.value)
    assert said.startswith("net.onnx: ")
    assert "\n" not in said
    return said


@pytest.mark.parametrize("text", TEXTS)
def test_a_node_is_named_with_what_helps(text: str) -> None:
    """ONNX's checker names attributes of ' : alpha', and says nothing of what to do."""
    said = refusal(written(f"g ({MAP} x) => ({MAP} y) {{ {text} }}"))
    assert re.search(TEXTS[text], said), said


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none(number: float) -> None:
    """The line said what is wrong, but not what helps."""
    model = written(f"g ({MAP} x) => ({MAP} y) {{ y = LeakyRelu <alpha=0.5> (x) }}")
    model.graph.node[0].attribute[0].f = number
    assert refusal(model).endswith("attribute 'alpha' holds NaN or infinity; export it with a finite number")


def test_two_inputs_of_one_name() -> None:
    """With and without --shape, a checker's sentence about 'SSA form' was all."""
    assert refusal(written(f"g ({MAP} x, {MAP} x) => ({MAP} y) {{ y = Relu (x) }}")).endswith(
        "two inputs are called 'x'; rename one of them"
    )


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("x", "nothing is computed: all its outputs ('x') are inputs; export it with what its nodes make as outputs"),
        ("y", "nothing is computed: it has no nodes; export the whole network"),
        ("c", "nothing is computed: it has no nodes; export the whole network"),
        (None, "its list of outputs is empty; export it with the tensors that you want as outputs"),
    ],
)
def test_a_model_without_nodes_is_onnx(output: str | None, reason: str) -> None:
    """It was said to be no ONNX model."""
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])
    outputs = [ValueInfoProto(name=output)] if output else []
    graph = helper.make_graph([], "g", [value], outputs, [helper.make_tensor("c", TensorProto.FLOAT, [1], [2.0])])
    assert refusal(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])) == f"net.onnx: {reason}"


def test_what_is_no_model_at_all() -> None:
    """An empty file, and one that only a chance makes readable, have no graph."""
    for content in (b"", ModelProto(ir_version=8).SerializeToString()):
        with pytest.raises(ModelError, match=r"not an ONNX model \(no graph, opset or IR version in its \d bytes\); export"):
            load_model(content)
