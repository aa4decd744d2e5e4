"""Networks whose integers have fewer bits than their type: limits between each Q and DQ, as QAT tools export them."""

import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper

from cnna.compiler.compile import compile_model
from cnna.compiler.frontend.onnx_import import load_model
from cnna.spec.config import preset

from .one_piece import compiled_whole
from .pairs import with_pairs
from .written import images, silu, written

TINY = preset("tiny")
TEXT = f"""g (float[N,3,12,12] x) => (float[N,6,5,5] y) {{
    b = Conv <pads=[1,1,1,1]> (x, w) c = Relu (b)
    d = Conv <pads=[1,1,1,1], group=8> (c, u) e = Conv (d, v) f = Add (e, c) h = Relu (f)
    i = MaxPool <kernel_shape=[2,2], strides=[2,2]> (h) j = AveragePool <kernel_shape=[2,2]> (i)
    {silu("k", "j")} l = Concat <axis=1> (k, j) y = Conv (l, t) }}"""
WEIGHTS = {"w": (8, 3, 3, 3), "u": (8, 1, 3, 3), "v": (8, 8, 1, 1), "t": (6, 16, 1, 1)}
WIDTHS = {  # bits: scales shrink with them; least and greatest integer
    "7 bits": (1, -64, 63),
    "7 bits, unsigned": (1, 0, 127),
    "4 bits": (12, -8, 7),
    "4 bits, without the least": (12, -7, 7),
    "3 bits": (18, -4, 3),
    "8 bits without the least": (1, -127, 127),
}


def narrowed(model: ModelProto, low: int, high: int, unsigned: bool, limit: str = "Clip") -> ModelProto:
    """The model with limits between Q and DQ, in int8, or in uint8 with its zero points moved by 128."""
    kind, graph, nodes = np.uint8 if unsigned else np.int8, model.graph, []
    for tensor in graph.initializer:
        if tensor.name.endswith(":zero"):
            tensor.CopyFrom(numpy_helper.from_array(np.array(low if unsigned else 0, kind), tensor.name))
    behind = {node.input[0]: node for node in graph.node if node.op_type == "DequantizeLinear"}
    for number, bound in (("low", low), ("high", high)):
        graph.initializer.append(numpy_helper.from_array(np.array(bound, kind), f"limit {number}"))
    for node in graph.node:
        nodes.append(node)
        if node.op_type == "QuantizeLinear" and node.output[0] in behind:
            q = node.output[0]
            if limit == "Clip":
                nodes.append(helper.make_node("Clip", [q, "limit low", "limit high"], [f"{q}:narrow"], f"{q}:clip"))
            else:
                nodes.append(helper.make_node("Max", [q, "limit low"], [f"{q}:max"], f"{q}:maximum"))
                nodes.append(helper.make_node("Min", ["limit high", f"{q}:max"], [f"{q}:narrow"], f"{q}:minimum"))
            behind[q].input[0] = f"{q}:narrow"
    del graph.node[:]
    graph.node.extend(nodes)
    return model


def network(width: str, limit: str = "Clip") -> ModelProto:
    factor, low, high = WIDTHS[width]
    # of ratios that are no simple fractions, since onnxruntime's float32 moves exact ties to either side
    steps = {
        "x": 31.7,
        "b": 24.1,
        "c": 25.3,
        "d": 40.9,
        "e": 23.7,
        "f": 19.3,
        "h": 18.7,
        "i": 18.7,
        "j": 21.1,
        "k": 30.1,
        "l": 17.9,
        "y": 67.3,
    }
    scales = {name: (factor / step, 0) for name, step in steps.items()}
    weights = {"w": 1 / 300, "u": 1 / 150, "v": 1 / 200, "t": 1 / 100}
    return narrowed(with_pairs(written(TEXT, WEIGHTS), scales, weights), low, high, low == 0, limit)


@pytest.mark.parametrize("limit", ["Clip", "Max and Min"])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_network_of_narrow_integers_runs_whole(width, limit):
    """None of it would run on the accelerator, or it would use integers that the network does not have."""
    model = network(width, limit)
    feeds = {name: 2 * x for name, x in images(model, 4).items()}  # beyond the limits, too
    compiled_whole(model, feeds, TINY, 1.5, 0.999)


def test_limits_take_no_command_behind_a_layer():
    """A copy of each map would take as long as a layer: only the network's input, which the host rounds, has one."""
    plain, narrow = (compile_model(load_model(one.SerializeToString()), TINY) for one in (with_limits(False), with_limits(True)))
    assert len(narrow.manifest["pieces"][0]["commands"]) == len(plain.manifest["pieces"][0]["commands"])


def with_limits(narrow: bool) -> ModelProto:
    text = "g (float[N,4,8,8] x) => (float[N,4,8,8] y) { a = Conv (x, w) b = Conv (a, v) y = Add (b, a) }"
    model = with_pairs(
        written(text, {"w": (4, 4, 1, 1), "v": (4, 4, 1, 1)}), dict.fromkeys("xaby", (1 / 16, 0)), {"w": 1 / 64, "v": 1 / 64}
    )
    if narrow:
        bare = next(node for node in model.graph.node if node.op_type == "QuantizeLinear" and node.input[0] == "x")
        narrowed(model, -8, 7, False)
        clip = next(node for node in model.graph.node if node.op_type == "Clip" and node.input[0] == bare.output[0])
        for node in model.graph.node:
            node.input[:] = [bare.output[0] if name == clip.output[0] else name for name in node.input]
        model.graph.node.remove(clip)
    return model
