"""The search keeps those layers in float that cost most, as few as the limit allows, and says when it cannot be met."""

import numpy as np
import pytest

from cnna.compiler.quantise.answers import AGREEMENT, LABELLED, Results
from cnna.compiler.quantise.examine import Examiner, Measured
from cnna.compiler.quantise.quantise import calibrated, float_graph
from cnna.compiler.quantise.search import neighbours, search
from cnna.spec.verdicts import COSINE, NOISE, SAID

from ..written import answers, images, written
from .depthwise import depthwise_network, pictures
from .test_noise import CALIBRATION, MODEL, examiner


def searched(found, limit):
    first = found.given.source()
    return search(found, limit, first, found.noise(first[0].proto, first[1]))


def test_one_bad_layer_is_enough():
    """Its neighbours would cost speed for nothing."""
    _, found = examiner(CALIBRATION["x"])
    result = searched(found, 0.0)
    assert result.met
    assert result.of == AGREEMENT
    assert [layer.name for layer in result.best.kept] == ["two"]
    assert result.losses[0] > result.losses[1] == 0
    whole = answers(MODEL, CALIBRATION)[0].argmax(axis=1)
    assert (answers(result.best.model.proto, CALIBRATION)[0].argmax(axis=1) == whole).all()


def test_what_int8_meets_keeps_nothing():
    """A network would lose speed although its user is content with it."""
    _, found = examiner(CALIBRATION["x"], answers(MODEL, CALIBRATION)[0].argmax(axis=1))
    result = searched(found, 100.0)
    assert (result.met, result.of, result.best.kept) == (True, LABELLED, ())
    assert [*result.losses] == [0]


def test_layers_of_depthwise_networks_are_kept_until_the_limit_is_met():
    """Neighbours bring more together: three of 14 layers take away half of the loss, those that cost most alone nothing."""
    x = pictures(150, seed=5)
    model, held = depthwise_network(1), np.arange(150) % 3 == 2
    found = Examiner(calibrated(float_graph(model), {"x": x[~held]}), Measured({"x": x[held]}, 50), lambda what: None)
    result = searched(found, 8.0)
    assert result.met
    assert result.losses[0] > 12
    assert 0 < len(result.best.kept) <= 5
    assert result.best.loss == result.losses[len(result.best.kept)] <= 8


def test_a_limit_that_cannot_be_met():
    """With one layer, float would leave nothing for the accelerator."""
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(4, 3, 1, 1)).astype(np.float32)
    weights[:, 1] *= 5000
    text = "g (float[N,3,4,4] x) => (float[N,4] y) { a = Conv (x, w) b = GlobalAveragePool (a) y = Flatten (b)}"
    model = written(text, {"w": weights})
    samples = images(model, 40)
    samples["x"][:, 1] = 0
    found = Examiner(calibrated(float_graph(model), samples), Measured(samples, 40), lambda what: None)
    result = searched(found, 0.0)
    assert not result.met
    assert result.best.loss == result.losses[0] > 0


EMBEDDING = "e = GlobalAveragePool (b) y = Flatten (e)"


@pytest.mark.parametrize(
    ("tail", "shape", "metric", "of"),
    [
        ("y = Relu (b)", "float[N,1,4,4]", None, NOISE),
        (EMBEDDING, "float[N,64]", None, COSINE),
        (EMBEDDING, "float[N,64]", NOISE, NOISE),
    ],
)
def test_what_has_no_classes_is_judged_by_what_it_is(tail, shape, metric, of):
    """A heatmap would be refused, and the greatest value of an embedding be taken for its class."""
    channels = 64 if tail == EMBEDDING else 1
    text = f"g (float[N,3,4,4] x) => ({shape} y) {{ a = Conv (x, w) b = Conv (a, v) {tail} }}"
    model = written(text, {"w": (3, 3, 1, 1), "v": (channels, 3, 1, 1)})
    samples = images(model, 12)
    metrics = {"y": metric} if metric else None
    found = Examiner(calibrated(float_graph(model), samples), Measured(samples, 12), lambda what: None, metrics)
    whole = searched(found, 100.0)
    assert (whole.met, whole.of, whole.best.kept) == (True, SAID[of], ())
    (judged,) = found.judge.results(whole.best.model.proto).outputs
    assert judged.choice[0] == of
    value = judged.values[of]
    expected = 100 * (10 ** (-value / 20) if of == NOISE else 1 - value)
    assert whole.best.loss == pytest.approx(expected)
    less = searched(found, 0.0)
    assert len(less.best.kept) == 1
    assert less.losses[1] < less.losses[0]


def test_what_cannot_be_compared_has_no_loss():
    """It would count as equal to float."""
    _, found = examiner(CALIBRATION["x"])
    assert found.judge.loss(Results(None, None)) is None


def test_neighbours_are_found_across_other_nodes():
    """A layer behind a pool rounds nothing more if both stay in float."""
    _, found = examiner(CALIBRATION["x"])
    near = neighbours(found.given.graph, [layer for layer in found.layers if layer.multiplies])
    assert near == {"one": ["two"], "two": ["one", "three"], "three": ["two"]}
