"""The examples that users copy work as they stand."""

import re
import subprocess
import sys

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
    with pytest.raises(
        RunError, match=r"1 of 1 cocotb tests of counter failed: stays_within_its_cycles: .* the budget is 10 assert \d+ < 10$"
    ):
        run_tests("tiny", "counter", folder, [f"+artifact={digits}", "+budget=10"])


@pytest.mark.cosim
def test_the_example_runs_as_its_docstring_says(root, digits):
    """A newcomer's first command would fail, since it ran in another folder, or end without a word."""
    command = [sys.executable, str(root / "examples" / "cocotb_counter" / "counter.py"), "+artifact=digits.cnna"]
    done = subprocess.run(command, cwd=digits.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^[0-9,]+ cycles, [0-9,]+ at work$", done.stdout, re.MULTILINE)
    assert "TESTS=1 PASS=1 FAIL=0" in done.stdout
    assert [path.name for path in digits.parent.iterdir()] == ["digits.cnna"]
    done = subprocess.run([*command[:-1], "+artifact=no.cnna"], cwd=digits.parent, capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert done.stderr.count("no.cnna: no such file") == 1


@pytest.mark.cosim
def test_a_module_that_has_no_test_is_no_success(tmp_path):
    """A forgotten decorator, or a module that cannot be imported, would look like tests that passed."""
    (tmp_path / "nothing.py").write_text("")
    with pytest.raises(RunError, match=r"nothing"):
        run_tests("tiny", "nothing", tmp_path)
    (tmp_path / "broken.py").write_text("import nonsense_that_is_not_there")
    with pytest.raises(RunError, match=r"broken"):
        run_tests("tiny", "broken", tmp_path)
