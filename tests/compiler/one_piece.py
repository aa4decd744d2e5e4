"""A network that must run in one piece: compiled, emulated, and compared with onnxruntime on the same QDQ model."""

from collections.abc import Mapping

import numpy as np
from onnx import ModelProto

from cnna.compiler.compile import compile_model
from cnna.compiler.frontend.onnx_import import load_model
from cnna.host.model.model import Model
from cnna.spec.artifact import Artifact
from cnna.spec.config import Config
from cnna.spec.manifest import ACCELERATOR

from .written import answers


def compiled_whole(model: ModelProto, feeds: Mapping[str, np.ndarray], config: Config, greatest: float, equal: float) -> Artifact:
    """The artifact of a quantised model with the output `y`: one piece, on the accelerator, whose emulator and reference agree.

    AssertionError: an answer is `greatest` steps of the output or more from onnxruntime's, or a share of `equal` is not the same.
    """
    artifact = compile_model(load_model(model.SerializeToString()), config)
    assert [piece["kind"] for piece in artifact.manifest["pieces"]] == [ACCELERATOR]
    with Model(artifact, "emulator", check=True) as emulated:
        found = emulated.run(dict(feeds))["y"]
    (expected,) = answers(model, feeds)
    step = np.abs(np.diff(np.unique(expected))).min()
    assert np.abs(found - expected).max() < greatest * step
    assert (np.abs(found - expected) < 0.5 * step).mean() > equal
    return artifact
