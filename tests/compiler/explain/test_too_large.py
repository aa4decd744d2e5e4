"""`cnna explain` and layers that the configuration's registers or memory cannot hold."""

import re

import pytest

from cnna.compiler.compile import compile_model
from cnna.compiler.explain.explain import explain
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.quantise.quantise import quantise
from cnna.spec.config import preset
from cnna.spec.errors import ModelError

from ..written import images, written

TINY = preset("tiny")
TOO_LARGE = {  # for `tiny`, though not for larger configurations
    "inputs": (
        "float[N,20000,1,1] x",
        "y = Conv (x, w)",
        {"w": (1, 20000, 1, 1)},
        "blocks 5000 is not within 1..4095; tiny has ci=4",
    ),
    "outputs": ("float[N,1,1,1] x", "y = Conv (x, w)", {"w": (40000, 1, 1, 1)}, "chunks 5000 is not within 1..4095; tiny has co=8"),
    "row": (
        "float[N,64,4,3000] x",
        "y = Conv (x, w)",
        {"w": (1, 64, 3, 3)},
        "words of feature memory, but config tiny has 16384; use",
    ),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_a_layer_that_is_too_large_for_the_configuration_is_refused(name):
    """No ranges would help, and `compile` refuses the quantised model with the same line; a script would go on to it."""
    given, node, weights, said = TOO_LARGE[name]
    model = load_model(written(f"g ({given}) => (float[N,?,?,?] y) {{ [big] {node} }}", weights).SerializeToString())
    found = explain(model, TINY)
    assert found.assumed
    assert found.refused
    assert "node 'big'" in found.problems[0]
    assert said in found.problems[0]
    quantised, _ = quantise(model, images(model, 2))
    with pytest.raises(ModelError, match=re.escape(found.problems[0].partition(": ")[2])):
        compile_model(quantised, TINY)
    assert not explain(model, preset("zcu102")).refused
