"""Books of 16 values a channel: found by k-means, kept by every effort, and given only where the answers allow."""

import numpy as np
import onnx
import pytest

from cnna.compiler.quantise.books import books_of, fully_connected, nearest_in_books
from cnna.compiler.quantise.fc_bits import coded, with_four_bits
from cnna.compiler.quantise.quantise import calibrated, float_graph
from cnna.compiler.quantise.weights import nearest
from cnna.spec.codebook import ENTRIES
from cnna.spec.errors import ModelError

from ..written import answers, images


def network(classes: int = 10, alike: bool = False) -> onnx.ModelProto:
    """Two fully connected layers behind a convolution. alike: the classes' weights differ by less than a step of 16 values."""
    rng = np.random.default_rng(4)
    shapes = {"k": (8, 3, 3, 3), "w1": (160, 8 * 6 * 6), "w2": (classes, 160)}
    values = {name: rng.normal(0, np.prod(shape[1:]) ** -0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    if alike:
        values["w2"] = values["w2"][:1] + rng.normal(0, 0.004, shapes["w2"]).astype(np.float32)
    make = onnx.helper.make_node
    nodes = [
        make("Conv", ["x", "k"], ["c"], pads=[1, 1, 1, 1]),
        make("Relu", ["c"], ["r"]),
        make("Flatten", ["r"], ["f"]),
        make("Gemm", ["f", "w1"], ["h"], transB=1),
        make("Relu", ["h"], ["hr"]),
        make("Gemm", ["hr", "w2"], ["y"], transB=1),
    ]
    sizes: dict[str, list[str | int]] = {"x": ["N", 3, 6, 6], "y": ["N", classes]}
    ends = [onnx.helper.make_tensor_value_info(name, 1, size) for name, size in sizes.items()]
    tensors = [onnx.numpy_helper.from_array(value, name) for name, value in values.items()]
    graph = onnx.helper.make_graph(nodes, "books", ends[:1], ends[1:], tensors)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def weights_of(model: onnx.ModelProto) -> list[np.ndarray]:
    """The int8 weights of a quantised model, in order, a row for each channel."""
    found = [onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer if tensor.name.endswith(":int8")]
    return [value.reshape(len(value), -1) for value in found]


def counts(model: onnx.ModelProto) -> list[int]:
    """The most values that a channel has, for each layer."""
    return [max(len(np.unique(row)) for row in value) for value in weights_of(model)]


def samples(model: onnx.ModelProto, count: int = 60) -> dict[str, np.ndarray]:
    return images(model, count, seed=3)


def test_books_lose_less_than_even_steps_do():
    """K-means would be a poorer choice than the 16 even steps that a plain 4-bit format has."""
    rng = np.random.default_rng(2)
    weights = rng.laplace(0, 1, (6, 900, 1, 1))
    scales = np.abs(weights).max(axis=(1, 2, 3)) / 127
    found = nearest_in_books(weights, scales)
    steps = np.abs(weights).max(axis=(1, 2, 3)) / 7
    even = np.rint(weights / steps[:, None, None, None]) * steps[:, None, None, None]
    assert ((found - weights) ** 2).sum() < 0.3 * ((even - weights) ** 2).sum()
    for row, scale in zip(found, scales, strict=True):
        values = np.unique(np.rint(row / scale))
        assert len(values) <= ENTRIES
        assert np.abs(values).max() <= 127


def test_few_values_are_kept_as_they_are():
    """A channel that has 16 values already, or one, would lose some of them."""
    rng = np.random.default_rng(5)
    few = rng.choice(np.arange(-127, 0, 9), (3, 400)).astype(np.float64)  # 15 values
    few[1:, 1:] = 5
    few[:, 0] = 127
    scales = np.ones(3)
    assert np.array_equal(nearest_in_books(few[..., None, None], scales), nearest(few[..., None, None], scales))
    assert np.array_equal(books_of(few, scales), np.sort(books_of(few, scales), axis=1))


@pytest.mark.parametrize("effort", [0, 1, 2])
def test_fully_connected_layers_get_books(effort):
    """A layer would keep 8 bits, another one lose them, or learned rounding leave the book."""
    model = network()
    given = calibrated(float_graph(model), samples(model), effort=effort)
    eight, _ = given.quantised()
    four, report = with_four_bits(given).quantised()
    assert len(report.coded) == 2
    most = counts(four)
    assert sorted(most)[:2] <= [ENTRIES, ENTRIES]
    assert sum(count <= ENTRIES for count in most) == 2
    assert min(counts(eight)) > ENTRIES
    feeds = images(model, 30, seed=9)
    wanted = answers(model, feeds)[0]
    shares = [(answers(found, feeds)[0].argmax(axis=1) == wanted.argmax(axis=1)).mean() for found in (eight, four)]
    assert shares[1] > shares[0] - 0.2


def test_the_layer_with_most_weights_comes_first():
    given = calibrated(float_graph(network()), samples(network()))
    sizes = [given.body.constants[node.op.weights].size for node in fully_connected(given.body)]
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) == 2


def test_auto_gives_books_only_where_answers_stay():
    """Classes that differ by little would be mixed up, or a layer that loses nothing keep 8 bits."""
    model = network(alike=True)
    given = calibrated(float_graph(model), samples(model, 200))
    assert len(coded(given, samples(model, 200), 100, lambda what: None).coded) == 2
    kept = coded(given, samples(model, 200), 1, lambda what: None).coded
    last = next(node.output for node in fully_connected(given.body) if given.body.tensors[node.output].shape[1] == 10)
    assert last not in kept


def test_models_without_such_layers_are_refused():
    """A user would think that 4 bits were taken."""
    model = network()
    del model.graph.node[2:]
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("r", 1, ["N", 8, 6, 6]))
    given = calibrated(float_graph(model), samples(model))
    with pytest.raises(ModelError, match="no fully connected layer of 128 inputs"):
        with_four_bits(given)


def test_auto_judges_outputs_without_classes_by_what_they_are():
    """A network with one number as its answer would be refused, though its signal to noise says what 4 bits cost."""
    one = network(classes=1)
    given = calibrated(float_graph(one), samples(one))
    kept, coarse = (coded(given, samples(one), limit, lambda what: None).coded for limit in (0, 100))
    assert len(kept) < len(coarse) == 2
