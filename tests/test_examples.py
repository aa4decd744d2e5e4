"""The examples that users copy work as they stand."""

import pytest

from cnna.compiler.compile import compile_model
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.quantise.quantise import quantise
from cnna.compiler.zoo.digits.data import NETWORK
from cnna.sim.testbench import run_tests
from cnna.spec.artifact import save
from cnna.spec.config import preset
from cnna.spec.errors import RunError


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """The demo's network for `tiny`, as a file."""
    import numpy as np

    float_model = load_model(NETWORK)
    shape = [dim.dim_value for dim in float_model.graph.input[0].type.tensor_type.shape.dim][1:]
    images = np.random.default_rng(0).random((20, *shape), np.float32)
    path = tmp_path_factory.mktemp("digits") / "digits.cnna"
    save(compile_model(quantise(float_model, {float_model.graph.input[0].name: images})[0], preset("tiny")), path)
    return path


@pytest.mark.cosim
def test_a_users_own_cocotb_test_runs_and_can_fail(root, digits):
    """It must pass within its budget, and be reported with its message if the budget is too small."""
    folder = root / "examples" / "cocotb_counter"
    run_tests("tiny", "counter", folder, [f"+artifact={digits}"])
    with pytest.raises(RunError, match="cycles"):
        run_tests("tiny", "counter", folder, [f"+artifact={digits}", "+budget=10"])
