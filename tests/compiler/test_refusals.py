"""Models that cannot be compiled as they are: refused by the node's name and the remedy, not compiled into something else."""

import re

import numpy as np
import pytest
from onnx import numpy_helper

from cnna.compiler.onnx_import import to_graph
from cnna.compiler.pipeline import QUANTISATION, REWRITES, run_passes
from cnna.compiler.quantised_import import import_quantised
from cnna.compiler.support import quantised_limit, refusal
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


def test_float_model_is_refused():
    with pytest.raises(ModelError, match="not quantised; run `cnna quantize`"):
        import_quantised(written(CONV.format(kernel=[3, 3]), {"w": (2, 3, 3, 3)}))


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        (("x", "y"), r"'BatchNormalization:b' \(Affine\).*'b' has no QuantizeLinear.*quant_pre_process.*or .*`cnna quantize`"),
        (("x", "a", "b"), r"'Conv:y' \(Conv\).*'y' has no QuantizeLinear.*quantise the float model with `cnna quantize`"),
    ],
)
def test_what_lacks_a_rounding_is_told_the_remedy(pairs, reason):
    """A batch norm that nothing absorbs is the usual case: the user must hear of folding, not of limits of convolutions."""
    text = """g (float[N,3,4,4] x) => (float[N,3,4,4] z) {
        a = Relu (x)
        b = BatchNormalization (a, s, o, m, var)
        y = Conv (b, w)
        t = Tanh (y)
        z = Conv (t, w)}"""
    weights = {"s": (3,), "o": (3,), "m": (3,), "var": (3,), "w": (3, 3, 1, 1)}
    model = with_pairs(written(text, weights), dict.fromkeys(pairs, (0.1, 0)), {"w": 1 / 64})
    graph = run_passes(to_graph(model), (*REWRITES, *QUANTISATION))
    refusals = [refusal(node, why) for node in graph.nodes if (why := quantised_limit(node, graph))]
    assert any(re.search(reason, line) for line in refusals), refusals
