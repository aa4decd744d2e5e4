"""Q and DQ whose type no zero point says, against onnxruntime: `output_dtype`, and the defaults of each opset."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from cnna.compiler.compile import compile_model
from cnna.compiler.explain.explain import explain
from cnna.compiler.frontend.onnx_import import load_model
from cnna.host.model.model import Model
from cnna.spec.config import preset
from cnna.spec.manifest import ACCELERATOR, CPU

from ...written import answers, images

TINY, STEP = preset("tiny"), 0.05
INT8, UINT8, INT16, INT4, FLOAT8 = (getattr(TensorProto, name) for name in ("INT8", "UINT8", "INT16", "INT4", "FLOAT8E4M3FN"))


def rounded(opset: int, kind: int, at_q: bool, at_dq: bool, weights: int = INT8, block: int = 0) -> ModelProto:
    """A convolution between Q and DQ of a type that a zero point says (`at_q`), or `output_dtype`, or nothing (0)."""
    rng, sizes = np.random.default_rng(1), {0: [6], 2: [6, 2, 3, 3]}[block]
    named: dict[str, Any] = {} if at_q or not kind else {"output_dtype": kind}
    zero = np.zeros((), helper.tensor_dtype_to_np_dtype(kind or UINT8))
    whole = rng.integers(0, 7, (6, 4, 3, 3)).astype(helper.tensor_dtype_to_np_dtype(weights))
    values = {"s": np.float32(0.03), "t": np.float32(STEP), "z": zero, "w": whole}
    values["p"] = rng.uniform(0.01, 0.02, sizes).astype(np.float32)
    q, dq = ["z"] * at_q, ["z"] * at_dq
    how: dict[str, Any] = {"axis": 1, "block_size": block} if block else {"axis": 0}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", *q], ["a"], **named),
        helper.make_node("DequantizeLinear", ["a", "s", *dq], ["b"]),
        helper.make_node("DequantizeLinear", ["w", "p"], ["c"], **how),
        helper.make_node("Conv", ["b", "c"], ["d"]),
        helper.make_node("QuantizeLinear", ["d", "t", *q], ["e"], **named),
        helper.make_node("DequantizeLinear", ["e", "t", *dq], ["y"]),
    ]
    ports = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", c, s, s]) for n, c, s in (("x", 4, 8), ("y", 6, 6)))
    x, y = ports
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(np.asarray(v), k) for k, v in values.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=11 if opset > 23 else 10)


def check(model: ModelProto, kind: str) -> None:
    """AssertionError: it runs elsewhere than on `kind`, or answers otherwise than onnxruntime by more than ties."""
    artifact, feeds = compile_model(load_model(model.SerializeToString()), TINY), images(model)
    assert [piece["kind"] for piece in artifact.manifest["pieces"]] == [kind]
    found, wanted = Model(artifact, "emulator").run(feeds)["y"], answers(model, feeds)[0]
    assert len(np.unique(wanted)) > 4
    steps = np.rint((found - wanted) / STEP)
    assert np.abs(steps).max() <= 1
    assert np.count_nonzero(steps) <= wanted.size // 50


@pytest.mark.parametrize("opset", [21, 23, 24, 25])
@pytest.mark.parametrize("kind", [INT8, UINT8])
@pytest.mark.parametrize("at_dq", [False, True])
def test_output_dtype_says_the_type(opset: int, kind: int, at_dq: bool) -> None:
    """Taken for uint8, the negative half of every map would be 0."""
    check(rounded(opset, kind, False, at_dq), ACCELERATOR)


@pytest.mark.parametrize("opset", [13, 19, 21, 25])
@pytest.mark.parametrize(("kind", "at_q"), [(INT8, True), (UINT8, True), (0, False)])
def test_a_dq_reads_the_type_of_its_input(opset: int, kind: int, at_q: bool) -> None:
    """A DQ without a zero point was taken for one of uint8: it no longer fitted its Q, and all ran on the CPU."""
    check(rounded(opset, kind, at_q, False), ACCELERATOR)


@pytest.mark.parametrize("kind", [INT16, INT4, FLOAT8])
@pytest.mark.parametrize("at_q", [False, True])
def test_other_types_stay_with_the_cpu(kind: int, at_q: bool) -> None:
    """Rounded to 8 bits in place of the model's own type, a map would have other values, without a word."""
    model = rounded(21, kind, at_q, False)
    check(model, CPU)
    name = np.dtype(helper.tensor_dtype_to_np_dtype(kind)).name
    found = explain(load_model(model.SerializeToString()), TINY)
    assert any(f"it is quantised as {name}; " in (row.reason or "") for row in found.rows)


@pytest.mark.parametrize(("weights", "kind"), [(UINT8, ACCELERATOR), (INT4, ACCELERATOR), (INT16, CPU), (FLOAT8, CPU)])
def test_weights_of_each_type(weights: int, kind: str) -> None:
    """Short floats have one byte too: taken for int8, they would be rounded to whole numbers."""
    check(rounded(21, INT8, False, False, weights), kind)


def test_a_scale_for_each_block_is_named() -> None:
    """Blocks of weights cannot run; "not in this form" would not say what to change."""
    model = rounded(21, INT8, False, False, block=2)
    check(model, CPU)
    rows = explain(load_model(model.SerializeToString()), TINY).rows
    assert any("it has a scale for each block of 2 elements" in (row.reason or "") for row in rows)


@pytest.mark.parametrize("kind", [INT8, INT4, FLOAT8])
def test_weights_that_the_model_itself_rounds(kind: int) -> None:
    """Some exporters leave weights in float behind Q and DQ; numpy has no limits for the short types, which was a traceback."""
    model = rounded(21, INT8, False, False)
    weights = next(t for t in model.graph.initializer if t.name == "w")
    weights.CopyFrom(numpy_helper.from_array(np.random.default_rng(2).normal(0, 0.1, (6, 4, 3, 3)).astype(np.float32), "w"))
    made = helper.make_node("QuantizeLinear", ["w", "p"], ["v"], axis=0, output_dtype=kind)
    model.graph.node[2].input[0] = "v"
    model.graph.node.insert(2, made)
    onnx.checker.check_model(model)
    check(model, CPU if kind == FLOAT8 else ACCELERATOR)
