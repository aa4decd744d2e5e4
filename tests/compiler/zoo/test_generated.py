"""The networks that the zoo generates are those that were published: sizes, work, ranges of activations, and decoded boxes."""

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from math import prod

import numpy as np
import onnx
import pytest

from cnna.compiler.zoo import catalogue, classifiers, detectors, maps, weights
from cnna.host.model.detections import yolov5_rows

from .activations import deviations, values

COCO = 80  # classes of the detectors
# Parameters, and GMACs to as many digits as were published: torchvision's documentation, the papers of MobileNetV1 and RegNet (timm
# has RegNetX's parameters), Darknet's 65.864 billion operations, ultralytics' 4.5 and 8.7 and YOLOX's 6.45 GFLOPs at 416, halved;
# the authors of EfficientNet-Lite0 count 0.407, other operators included.
PUBLISHED: dict[str, tuple[Callable[[], onnx.ModelProto], int, float, float]] = {  # and by what share ours may differ
    "resnet18": (lambda: classifiers.resnet(18), 11_689_512, 1.814, 0.0003),
    "resnet34": (lambda: classifiers.resnet(34), 21_797_672, 3.664, 0.0002),
    "resnet101": (lambda: classifiers.resnet(101), 44_549_160, 7.801, 0.0001),
    "mobilenet_v1": (classifiers.mobilenet_v1, 4_231_976, 0.569, 0.001),
    "mobilenet_v2": (classifiers.mobilenet_v2, 3_504_872, 0.301, 0.002),
    "mobilenet_v3_large": (classifiers.mobilenet_v3_large, 5_483_032, 0.217, 0.003),
    "efficientnet_b0": (lambda: classifiers.efficientnet("b0", lite=False), 5_288_548, 0.386, 0.001),
    "efficientnet_lite0": (lambda: classifiers.efficientnet("lite0", lite=True), 4_652_008, 0.407, 0.06),
    "regnetx_400mf": (classifiers.regnetx_400mf, 5_157_512, 0.4, 0.01),
    "yolov3": (detectors.yolov3, 61_949_149, 32.932, 0.0001),
    "yolov5n": (detectors.yolov5n, 1_872_157, 2.25, 0.012),
    "yolov8n": (detectors.yolov8n, 3_157_200 - detectors.BINS, 4.35, 0.006),  # the bins' numbers are constants here
    "yolox_tiny": (lambda: detectors.yolox_tiny(416), 5_055_855, 3.225, 0.006),
    "unet": (maps.unet, 7_763_041, 12.071, 0.0001),  # MACs: the test below
    "espcn": (maps.espcn, 22_729, 5.2126, 0.0001),  # 640 * 360 * (25 * 64 + 9 * 64 * 32 + 9 * 32 * 9)
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_generated_networks_have_the_published_sizes(name: str) -> None:
    """With a wrong width, kernel, stride or repeat, every figure would be that of another network."""
    make, parameters, gmacs, share = PUBLISHED[name]
    model = make()
    shapes = weights.weight_shapes(model.graph)
    statistics = sum(prod(shape) for key, shape in shapes.items() if key.endswith((".mean", ".variance")))
    assert catalogue.parameters(model) - statistics == parameters
    assert catalogue.macs(model) / 1e9 == pytest.approx(gmacs, rel=share)


def test_the_unets_work_is_that_of_its_levels() -> None:
    """Nobody published its MACs; a level whose maps have another size would do more or less than this sum."""
    edge, channels = 256, (3, *maps.UNET_CHANNELS, 512)
    down = sum((edge >> level) ** 2 * 9 * wide * (narrow + wide) for level, (narrow, wide) in enumerate(pairwise(channels)))
    ups = [(edge >> level) ** 2 * wide * (2 * wide + 9 * (2 * wide + wide)) for level, wide in enumerate(maps.UNET_CHANNELS)]
    assert catalogue.macs(maps.unet()) == down + sum(ups) + edge**2 * maps.UNET_CHANNELS[0]


def test_the_text_detector_is_as_large_as_published() -> None:
    """PaddleOCR has the file's size alone: 2.38 MB for PP-OCRv3, whose pyramid adds squeeze-and-excite to the same network."""
    excite = 4 * (2 * 96 * 24 + 24 + 96) + 4 * (2 * 24 * 6 + 6 + 24)
    assert 4 * (catalogue.parameters(maps.dbnet()) + excite) == pytest.approx(2.38e6, rel=0.005)


SMALL: dict[str, Callable[[], onnx.ModelProto]] = {  # pictures as small as leave enough pixels for the statistics of batch norms
    "mobilenet_v2": classifiers.mobilenet_v2,
    "mobilenet_v3_large": classifiers.mobilenet_v3_large,
    "efficientnet_b0": lambda: classifiers.efficientnet("b0", lite=False),
    "yolov5n": lambda: detectors.yolov5n(320),
    "yolov8n": lambda: detectors.yolov8n(320),
    "yolox_tiny": lambda: detectors.yolox_tiny(320),
    "dbnet": lambda: maps.dbnet(128),
    "unet": lambda: maps.unet(64),
    "espcn": lambda: maps.espcn(30, 50),
}


@cache
def _built(name: str) -> tuple[onnx.ModelProto, np.ndarray]:
    """A network with weights, and another picture than the one for its statistics."""
    entry = catalogue.Entry(name, "", SMALL[name])
    return catalogue.build(entry), catalogue.pictures(entry, 1, seed=9)


@pytest.mark.parametrize("name", SMALL)
def test_activations_keep_their_range(name: str) -> None:
    """With a wrong fan-in, a gate that closes or sums that grow from block to block, there would be nothing to quantise."""
    least, most = deviations(*_built(name))
    assert least > 0.1
    assert most < 30


def test_a_yolov5_decodes_its_heads() -> None:
    """A grid, stride or anchor at the wrong place would move every box; the host's decoder says where they belong."""
    model, picture = _built("yolov5n")
    heads = [f"head{stride}" for stride in detectors.STRIDES]
    found = values(model, picture, [*heads, "output"])
    anchors = [list(zip(of[::2], of[1::2], strict=True)) for of in detectors.ANCHORS_V5]
    rows = [yolov5_rows(found[head][0], of, stride) for head, of, stride in zip(heads, anchors, detectors.STRIDES, strict=True)]
    np.testing.assert_allclose(found["output"][0], np.concatenate(rows), rtol=1e-4, atol=1e-3)


def test_a_yolov8_decodes_its_heads() -> None:
    """Bins of another side, or cells in another order, would move every box."""
    model, picture = _built("yolov8n")
    heads = [f"head{stride}.joined" for stride in detectors.STRIDES]
    found = values(model, picture, [*heads, "output"])
    column = 0
    for head, stride in zip(heads, detectors.STRIDES, strict=True):
        _, rows, columns = found[head][0].shape
        for row, across in ((0, 0), (rows - 1, 0), (rows // 2, columns - 1)):
            cell = found[head][0][:, row, across].astype(np.float64)
            bins = np.exp(cell[: 4 * detectors.BINS].reshape(4, -1))
            left, top, right, bottom = (bins / bins.sum(1, keepdims=True)) @ np.arange(detectors.BINS)
            box = np.array([across + 0.5 + (right - left) / 2, row + 0.5 + (bottom - top) / 2, left + right, top + bottom]) * stride
            got = found["output"][0][:, column + row * columns + across]
            np.testing.assert_allclose(got[:4], box, rtol=1e-3, atol=1e-2)
            np.testing.assert_allclose(got[4:], 1 / (1 + np.exp(-cell[-COCO:])), rtol=1e-3, atol=1e-4)
        column += rows * columns


@pytest.mark.parametrize("name", [*classifiers.CLASSIFIERS, *detectors.DETECTORS, *maps.MAPS])
def test_every_graph_is_sound_and_answers_with_the_declared_shapes(name: str) -> None:
    """A node that reads what nobody writes, or a head of another size than declared, would show only in a long run."""
    onnx.checker.check_model(catalogue.entry(name).graph(), full_check=True)
