"""The networks that the zoo generates are those that were published: sizes, work and ranges of activations."""

from collections.abc import Callable
from functools import cache
from math import prod

import numpy as np
import onnx
import pytest

from cnna.compiler.zoo import catalogue, classifiers, weights

from .activations import deviations

# Parameters, and GMACs to as many digits as were published: torchvision's documentation, the papers of MobileNetV1 and RegNet (timm
# has RegNetX's parameters); the authors of EfficientNet-Lite0 count 0.407, other operators included.
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


SMALL: dict[str, Callable[[], onnx.ModelProto]] = {  # pictures as small as leave enough pixels for the statistics of batch norms
    "mobilenet_v2": classifiers.mobilenet_v2,
    "mobilenet_v3_large": classifiers.mobilenet_v3_large,
    "efficientnet_b0": lambda: classifiers.efficientnet("b0", lite=False),
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


@pytest.mark.parametrize("name", [*classifiers.CLASSIFIERS])
def test_every_graph_is_sound_and_answers_with_the_declared_shapes(name: str) -> None:
    """A node that reads what nobody writes, or a head of another size than declared, would show only in a long run."""
    onnx.checker.check_model(catalogue.entry(name).graph(), full_check=True)
