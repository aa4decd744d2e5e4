"""Raw maps of YOLOv3 and YOLOv5, whose anchors the user's word stands for."""

import numpy as np
import pytest
from onnx import ModelProto

from cnna.compiler.compile import compile_model
from cnna.compiler.heads.find import Missed, with_detector
from cnna.compiler.heads.raw_maps import COCO
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.detections import corners, yolo_rows, yolov5_rows
from cnna.spec.artifact import Artifact
from cnna.spec.config import preset
from cnna.spec.detection.decode import candidates
from cnna.spec.detection.heads import Heads
from cnna.spec.samples import pack

from ..written import images, written

CLASSES, SIDE, STRIDES = 2, 64, (16, 8)
TEXT = """g (float[N,3,64,64] x) => (float[N,21,4,4] y, float[N,21,8,8] z) {
    s = Conv <kernel_shape=[8,8], strides=[8,8]> (x, ws) z = Conv (s, wz, bz)
    t = Conv <kernel_shape=[2,2], strides=[2,2]> (s, wt) y = Conv (t, wy, by)
}"""


def compiled(text: str = TEXT) -> Artifact:
    """A model of maps at strides 16 and 8, in this order."""
    shapes = {"ws": (8, 3, 8, 8), "wz": (21, 8, 1, 1), "bz": (21,), "wt": (8, 8, 2, 2), "wy": (21, 8, 1, 1), "by": (21,)}
    model: ModelProto = written(text, shapes)
    return compile_model(quantise(model, images(model))[0], preset("tiny"))


def wanted(heads: Heads, tensors: list[np.ndarray], artifact: Artifact, family: str) -> tuple[np.ndarray, np.ndarray]:
    """Boxes and scores of all rows, by the decode of detectors whose user decodes."""
    ports = {port["name"]: port for port in artifact.program.manifest["outputs"]}
    found = []
    for name in ("y", "z"):
        q = tensors[heads.entry["heads"].index(name)]
        real = pack.dequantise(q, ports[name]["scale"], ports[name]["zero"])
        stride = SIDE // q.shape[1]
        if family == "yolov5":
            found.append(yolov5_rows(real, COCO[stride], stride).astype(np.float64))
            continue
        h = real.reshape(3, -1, *q.shape[1:]).transpose(0, 2, 3, 1).astype(np.float64)
        rows, columns = np.mgrid[: q.shape[1], : q.shape[2]]
        h[..., [0, 1, *range(4, h.shape[-1])]] = 1 / (1 + np.exp(-h[..., [0, 1, *range(4, h.shape[-1])]]))
        h[..., 0], h[..., 1] = (h[..., 0] + columns) * stride, (h[..., 1] + rows) * stride
        h[..., 2:4] = np.exp(h[..., 2:4]) * np.array(COCO[stride])[:, None, None]
        found.append(h.reshape(-1, h.shape[-1]))
    rows = np.concatenate(found)
    return corners(rows[:, :4]), yolo_rows(rows, True)[1]


@pytest.mark.parametrize("family", ["yolov3", "yolov5"])
def test_decoded_as_their_users_decode_them(family: str) -> None:
    """Boxes would have the anchors of another stride, or the formula of the other family."""
    artifact, found = with_detector(compiled(), family)
    assert isinstance(found, Heads), found
    assert found.said().startswith(f"YOLO{family[-2:]}: 240 boxes on maps of 4x4, 8x8, 3 a cell, 2 classes")
    tensors = [np.random.default_rng(3).integers(-128, 128, shape).astype(np.int8) for shape in found.shapes]
    boxes, scores = wanted(found, tensors, artifact, family)
    made = candidates(found, tensors, 0.2, "all", scores.size)
    assert len(made.rows) == int((scores >= np.float32(0.2)).sum()) > 10
    np.testing.assert_allclose(made.scores, scores[made.rows, made.classes], atol=1e-6)
    scale = np.maximum(np.abs(boxes[made.rows]), SIDE)
    assert (np.abs(made.boxes - boxes[made.rows]) / scale).max() < 1e-4


def test_without_the_users_word_they_are_a_miss() -> None:
    """Anchors of one family would be taken for those of another, and boxes would be wrong without a word."""
    found = with_detector(compiled())[1]
    assert isinstance(found, Missed)
    assert "--detector yolov3 or --detector yolov5" in str(found)


def test_maps_that_are_computed_further_are_a_miss() -> None:
    """Numbers behind a sigmoid would go through another one."""
    text = TEXT.replace("z = Conv (s, wz, bz)", "u = Conv (s, wz, bz) z = Sigmoid (u)")
    found = with_detector(compiled(text), "yolov5")[1]
    assert "as it is" in str(found)
