"""Trained networks of others: their int8 accuracy over all test samples, and the RTL equal to the bit on some of them.

They lie in a folder that is not part of the project: `pytest --models DIR`. Without it only these tests are skipped.
docs/accuracy.md has the measured figures; here are bounds that a mistake breaks.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import trained
from faces import recall
from trained import FLOAT, Array, Trained

from cnna.compiler.frontend.onnx_import import load_model
from cnna.host.model.model import Model
from cnna.spec.artifact import Artifact
from cnna.spec.config import preset

QUICK = ("mnist_cntk", "kws_dscnn", "tmx_cifar10")  # one to three million multiply-accumulates an image
FACES = "ultraface_slim320"  # a detector without classes: boxes are compared
ONNXRUNTIME = "model_ort_qdq_minmax.onnx"  # the float model as onnxruntime quantises it
RTL_SAMPLES, EMULATED_BATCH = 5, 4
LOST = 0.03  # of top-1, or of agreement with the float network, that int8 may cost more than onnxruntime's int8 does
SAME = (
    0.95  # least share of onnxruntime's own top-1 on the same int8 model; its fused kernels differ in up to 4.5 % from its others
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Makes a test for each model file; without the folder one skipped test says why."""
    root: Path | None = metafunc.config.getoption("--models")
    if root is None:
        reason = "no folder of trained models: pytest --models DIR (default: ../shared/models)"
        params = [pytest.param(None, marks=pytest.mark.skip(reason=reason), id="none")]
    else:
        params = [pytest.param(model, id=model.name, marks=_mark(model)) for model in trained.find(root)]
    metafunc.parametrize("model", params)


def _mark(model: Trained) -> pytest.MarkDecorator:
    return pytest.mark.cosim if model.folder.name in QUICK else pytest.mark.slow


@cache
def _float_answers(folder: Path) -> dict[str, Array]:
    """The float network's answers to all test samples, by onnxruntime."""
    model = Trained(folder, FLOAT)
    return trained.onnxruntime_answers(load_model(model.path), trained.samples(model, "test").x)


def _compiled(model: Trained, batch: int) -> Artifact:
    """Compiles for the configuration that simulates the model soonest: `zcu102` takes minutes to build, which large models
    repay.
    """
    return trained.artifact(model, preset("tiny" if model.folder.name in QUICK else "zcu102"), batch)


def test_int8_is_as_accurate_as_onnxruntimes(model: Trained) -> None:
    """A wrong scale, rounding, padding or average count would cost points of accuracy, layer after layer."""
    samples = trained.samples(model, "test")
    ours = trained.emulated(_compiled(model, EMULATED_BATCH), samples.x)
    in_float = _float_answers(model.folder)
    theirs_model = Trained(model.folder, ONNXRUNTIME if model.file == FLOAT else model.file)
    theirs = trained.onnxruntime_answers(load_model(theirs_model.path), samples.x, optimised=False)
    if model.folder.name == FACES:
        (found, total), (theirs_found, _) = recall(ours, in_float), recall(theirs, in_float)
        assert found >= theirs_found - LOST * total
        return
    classes, ours_top, theirs_top, float_top = samples.classes, *map(trained.top1, (ours, theirs, in_float))
    assert np.mean(ours_top == classes) >= np.mean(float_top == classes) - LOST
    assert np.mean(ours_top == float_top) >= np.mean(theirs_top == float_top) - LOST
    if model.file != FLOAT:
        assert np.mean(ours_top == theirs_top) >= SAME


def test_rtl_equals_emulator_equals_reference(model: Trained) -> None:
    """A real network has shapes and orders that no generator draws: a tensor that the RTL writes would differ."""
    compiled = _compiled(model, 1)
    with Model(compiled, "rtl", check=True) as rtl:
        rtl.run({compiled.manifest["model_inputs"][0]["name"]: trained.samples(model, "test", RTL_SAMPLES).x})
        assert rtl.last["matches_reference"] is True
        assert str(rtl.agreement).startswith("RTL == emulator == reference: ")
