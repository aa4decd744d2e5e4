"""The models that `cnna models` offers are whole and sound, and a quantiser can work with their activations."""

import onnx
import pytest

from cnna.compiler.zoo import catalogue
from cnna.compiler.zoo.digits import data
from cnna.spec.errors import ModelError

from .activations import deviations

SMALL = ("squeezenet", "shufflenet", "densenet121")  # without and with batch norm, Scale nodes


@pytest.mark.parametrize("name", SMALL)
def test_activations_keep_their_range(name: str) -> None:
    """With a wrong fan-in or wrong statistics, activations would die out or grow from layer to layer in networks this deep."""
    entry = catalogue.entry(name)
    least, most = deviations(catalogue.build(entry), catalogue.pictures(entry, 1, seed=9))
    assert least > 0.1
    assert most < 30


def test_a_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    """Figures would not be repeatable if weights depended on anything but the seed."""
    entry = catalogue.entry("squeezenet")
    first, again, other = (catalogue.build(entry, seed).SerializeToString() for seed in (1, 1, 2))
    assert first == again != other


def _operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node if node.op_type != "ConstantOfShape"]


def test_the_graph_is_the_shipped_one() -> None:
    """`build` may replace weights, but no operators."""
    shipped = onnx.load(catalogue.LIGHT / "light_squeezenet.onnx")
    assert _operators(catalogue.build(catalogue.entry("squeezenet"))) == _operators(shipped)


@pytest.mark.parametrize("name", ["bvlc_alexnet", "inception_v1"])
def test_only_lrn_is_left_out(name: str) -> None:
    """The reader of an LRN must read the LRN's input; a lost or dangling node would be another network."""
    shipped = onnx.load(catalogue.LIGHT / f"light_{name}.onnx")
    ours = catalogue.entry(name.removeprefix("bvlc_")).graph()
    assert _operators(ours) == [op for op in _operators(shipped) if op != "LRN"]
    made = {name for node in ours.graph.node for name in node.output} | {value.name for value in ours.graph.input}
    assert {name for node in ours.graph.node for name in node.input} <= made | {t.name for t in ours.graph.initializer}


def test_digits_are_first_and_as_committed() -> None:
    """The trained model would come without its trained weights."""
    first = catalogue.entries()[0]
    assert first.name == "digits"
    assert catalogue.build(first) == onnx.load(data.NETWORK)


def test_digits_parts_have_no_image_in_common() -> None:
    """Calibration or training on test images would make every accuracy meaningless."""
    digits = data.load()
    parts = [{image.tobytes() for image in part.images} for part in (digits.train, digits.calibration, digits.test)]
    assert not parts[0] & parts[1]
    assert not parts[0] & parts[2]
    assert not parts[1] & parts[2]
    assert len(digits.calibration.images) == 100


def test_unknown_name_lists_those_there_are() -> None:
    """The message for a mistyped name would not say what could have been meant."""
    with pytest.raises(ModelError, match=r"resnet51.*digits.*resnet50"):
        catalogue.entry("resnet51")
