"""Operators behind a tensor of which not even the number of axes is known."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from cnna.compiler.explain.explain import explain
from cnna.compiler.frontend.onnx_import import load_model
from cnna.spec.config import preset

from ..written import Shapes, written

WEIGHTS: Shapes = {
    "w": (4, 3, 3, 3),
    "v": (4, 4, 1, 1),
    "n": np.array([-1]),
    "i": np.array([1, 0]),
    "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
    "none": np.zeros(0, np.float32),
    "twice": np.array([1, 1, 2, 2], np.float32),
}
READERS = (
    *("ReduceMean <axes=[2,3]> (u)", "ReduceMax <axes=[-1], keepdims=0> (u)", "ReduceSum (u, n)", "ArgMax <axis=-1> (u)"),
    *("Concat <axis=-1> (u, u)", "Gather <axis=-1> (u, i)", "Slice (u, n, i, n)", "Squeeze (u, n)", "Unsqueeze (u, n)"),
    *("Flatten <axis=-1> (u)", "Transpose (u)", "Softmax <axis=-1> (u)", "Pad (u, pads)", 'Pad <mode="edge"> (u, pads)'),
    *('Resize <mode="linear", coordinate_transformation_mode="align_corners"> (u, none, twice)', "Resize (u, none, twice)"),
    *("CumSum (u, n)", "DepthToSpace <blocksize=2> (u)", "MaxPool <kernel_shape=[2,2], ceil_mode=1> (u)", "GlobalMaxPool (u)"),
    *("Conv (u, v)", "MatMul (u, v)", "Add (u, a)", "Split <axis=-1> (u)", "LpNormalization (u)", "TopK <axis=-1> (u, n)"),
)


@pytest.mark.parametrize("reader", READERS)
def test_behind_a_tensor_of_unknown_rank(reader: str) -> None:
    """An axis modulo zero axes was a traceback; `explain` has a row for every node, whatever it can say of it."""
    made = "y, z" if reader.startswith(("Split", "TopK")) else "y"
    nodes = f"a = Conv (x, w) u = com.example.Thing (a) {made} = {reader}"
    used = {key: value for key, value in WEIGHTS.items() if any(f"{key}{end}" in nodes.replace("(", " ") for end in ",)")}
    model = written(f"g (float[N,3,8,8] x) => (float y) {{ {nodes} }}", used)
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64 if reader.startswith("ArgMax") else TensorProto.FLOAT
    model.graph.output[0].type.tensor_type.ClearField("shape")
    found = explain(load_model(model.SerializeToString()), preset("tiny"))
    assert any(row.op == reader.split()[0] for row in found.rows)
