"""What moves a DequantizeLinear up must leave alone, because its axis would be another."""

import numpy as np
import pytest

from cnna.compiler.frontend.onnx_import import to_graph
from cnna.compiler.passes.hoist_dequantise import hoist_dequantise

from ..written import kind_of, written

TEXT = """g (float[N,4,4,4] x) => (float[N,4,4,4] y) {{
    q = QuantizeLinear (x, s, z)
    t = Transpose <perm=[0,2,3,1]> (q)
    y = DequantizeLinear <axis=3> (t, {scale}, {zero})}}"""


@pytest.mark.parametrize("scale", ["s", "each"])
def test_only_one_scale_for_all_moves_above_a_transpose(scale):
    """A scale for each channel, moved up as it is, would scale rows: the shapes fit, the values do not."""
    weights = {"s": np.float32(0.1), "z": np.int8(0)}
    if scale == "each":
        weights |= {"each": np.array([0.1, 0.2, 0.3, 0.4], np.float32), "zeros": np.zeros(4, np.int8)}
    model = written(TEXT.format(scale=scale, zero="z" if scale == "s" else "zeros"), weights)
    kinds = [kind_of(node) for node in hoist_dequantise(to_graph(model)).nodes]
    assert kinds.index("DequantizeLinear") == (1 if scale == "s" else 2), kinds
