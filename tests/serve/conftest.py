"""What the tests of the engine serve: the digits network, compiled for `tiny` and batches of 1, 4 and 8, with golden answers."""

import asyncio
import shutil
from collections.abc import Callable, Coroutine
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper

from cnna.compiler.compile import compile_model
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.quantise.quantise import quantise
from cnna.compiler.zoo.digits import data
from cnna.host.model.session import InferenceSession
from cnna.serve.models import golden
from cnna.spec.artifact import save
from cnna.spec.config import preset

collect_ignore = [] if find_spec("pynq") else ["engine/test_pynq_board.py", "engine/test_pynq_soak.py"]
T = TypeVar("T")
BATCHES = (1, 4, 8)
GOLDEN = 4  # samples
SECONDS = 600.0  # no expectation: it ends a test that would otherwise hang
PATIENT = f"deadline_ms: {SECONDS * 1e3:.0f}\nretries: 100\n"  # a busy computer is no fault


@pytest.fixture(scope="session")
def images() -> NDArray[np.float32]:
    """Digits, [24, 1, 16, 16]."""
    return data.load().test.images[:24]


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory, images: NDArray[np.float32]) -> Path:
    """A repository that nobody changes: R/digits/1."""
    root = tmp_path_factory.mktemp("repository")
    folder = root / "digits" / "1"
    folder.mkdir(parents=True)
    (root / "digits" / "model.yaml").write_text(PATIENT)
    model, _ = quantise(load_model(data.NETWORK), {"image": data.load().calibration.images})
    for batch in BATCHES:
        save(compile_model(model, preset("tiny"), batch), folder / f"tiny-b{batch}.cnna")
    with InferenceSession(folder / "tiny-b4.cnna", "reference") as session:
        (logits,) = session.run(None, {"image": images[:GOLDEN]})
    golden.write(folder / "golden.npz", {"image": images[:GOLDEN]}, {"logits": logits})
    return root


@pytest.fixture
def repository(published: Path, tmp_path: Path) -> Path:
    """A repository of the test's own."""
    shutil.copytree(published, tmp_path / "repository")
    return tmp_path / "repository"


@pytest.fixture(scope="session")
def answers(published: Path, images: NDArray[np.float32]) -> NDArray[np.float32]:
    """What the reference says of all images."""
    with InferenceSession(published / "digits" / "1" / "tiny-b8.cnna", "reference") as session:
        (logits,) = session.run(None, {"image": images})
    found: NDArray[np.float32] = logits
    return found


@pytest.fixture(scope="session")
def opposite() -> onnx.ModelProto:
    """Another network than the one that is published, with the same tensors, quantised: its logits have the other sign."""
    model = onnx.load(str(data.NETWORK))
    for one in model.graph.initializer:
        if one.name.startswith("fc."):
            one.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(one), one.name))
    quantised, _ = quantise(model, {"image": data.load().calibration.images})
    return quantised


@pytest.fixture
def within() -> Callable[[Coroutine[Any, Any, T]], T]:
    """Runs a coroutine to its end."""

    def run(work: "Coroutine[Any, Any, T]") -> T:
        async def bounded() -> T:
            return await asyncio.wait_for(work, SECONDS)

        return asyncio.run(bounded())

    return run
