"""Models that ONNX's own checker lets pass and that mean nothing: refused by the node's name, not compiled into something else."""

import numpy as np
import pytest
from onnx import numpy_helper

from cnna.compiler.onnx_import import to_graph
from cnna.compiler.pipeline import REWRITES, run_passes
from cnna.compiler.quantised_import import import_quantised
from cnna.host.errors import ModelError

from .pairs import with_pairs
from .written import written

CONV = "g (float[N,3,8,8] x) => (float[N,2,?,?] y) {{ y = Conv <kernel_shape={kernel}> (x, w) }}"


@pytest.mark.parametrize("scale", [0.0, -0.5])
def test_a_scale_that_is_not_above_zero(scale):
    """Taken as no scale at all, such a model was called one that is not quantised, and its user sent to quantise it."""
    model = with_pairs(written(CONV.format(kernel=[3, 3]), {"w": (2, 3, 3, 3)}), {"x": (0.1, 0), "y": (scale, 0)}, {"w": 1 / 64})
    with pytest.raises(ModelError, match=rf"node 'DequantizeLinear:y' \(DequantizeLinear\): its scale is {scale:g}; .* above 0"):
        import_quantised(model)


def test_weights_of_another_size_than_the_kernel_says():
    """onnxruntime refuses it; going by the weights would answer with another size than the model's shapes have."""
    model = written(CONV.format(kernel=[5, 5]), {"w": (2, 3, 3, 3)})
    with pytest.raises(ModelError, match=r"node 'Conv:y' \(Conv\): weights \(2, 3, 3, 3\) are not of its kernel_shape \[5, 5\]"):
        run_passes(to_graph(model), REWRITES)


def test_weights_beyond_float32():
    """int8 times a scale of 1e38: refused as what they are, without numpy's warning in the middle of it."""
    weights = {"w": np.full((2, 3, 3, 3), 127, np.float32)}
    model = with_pairs(written(CONV.format(kernel=[3, 3]), weights), {"x": (0.1, 0), "y": (0.1, 0)}, {"w": 1})
    for tensor in model.graph.initializer:
        if tensor.name == "w:scale":
            tensor.CopyFrom(numpy_helper.from_array(np.float32(3e38), tensor.name))
    with pytest.raises(ModelError, match=r"\(Conv\) cannot run on the accelerator: its weights reach from inf to inf"):
        import_quantised(model)
