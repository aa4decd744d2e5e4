"""What the manifest lists of the operators on the CPU can be written as JSON, whatever their constants are."""

import json

import numpy as np
import pytest

from cnna.compiler.frontend.pieces.cpu_parts import operators_of
from cnna.spec.cpu_ops import numpy_suffices

from ...written import written


@pytest.mark.parametrize("bound", [np.inf, -np.inf, np.nan, 1.5])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_constants_that_json_lacks_are_only_in_the_onnx_file(bound, kind):
    """A Clip without an upper limit could not be compiled; without its constant, numpy must not run the operator in its place."""
    typed = {np.float32: "float", np.float64: "double"}[kind]
    model = written(f"g ({typed}[N,4] x) => ({typed}[N,4] y) {{ y = QuantizeLinear (x, bound) }}", {"bound": kind(bound)})
    operators = operators_of(model)
    json.dumps(operators, allow_nan=False)
    assert ("bound" in operators[0]["constants"]) == bool(np.isfinite(bound))
    assert numpy_suffices(operators, {"x"}) == bool(np.isfinite(bound))


@pytest.mark.parametrize(("slope", "there"), [("0.5", True), ("1e39", False)])
def test_attributes_that_json_lacks_are_only_in_the_onnx_file(slope, there):
    """An infinite attribute would stop the compilation at its last step."""
    model = written("g (float[N,4] x) => (float[N,4] y) { y = LeakyRelu <alpha=0.5> (x) }")
    model.graph.node[0].attribute[0].f = float(slope) if there else np.inf
    operators = operators_of(model)
    json.dumps(operators, allow_nan=False)
    assert ("alpha" in operators[0]["attributes"]) == there
