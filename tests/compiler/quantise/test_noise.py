"""What the report says of layers: signal to noise, clipping and cost must be those of the two networks that a user has."""

import numpy as np
import pytest

from cnna.compiler.quantise.answers import Judge, classes_of
from cnna.compiler.quantise.examine import Examiner, Measured
from cnna.compiler.quantise.noise import INPUT
from cnna.compiler.quantise.quantise import calibrated, float_graph
from cnna.host.model.divergence import Divergence
from cnna.spec.errors import DataError
from cnna.spec.verdicts import has_boxes

from ..written import answers, images, written

# w2's second input channel is 0 in every sample, and its great weights leave no steps for the others
TEXT = """g (float[N,3,8,8] x) => (float[N,5] y) {
    [one] a = Conv <pads=[1,1,1,1], kernel_shape=[3,3]> (x, w1, b1)
    [act] b = Relu (a)
    [two] c = Conv <kernel_shape=[1,1]> (b, w2)
    [three] d = Conv <kernel_shape=[1,1]> (c, w3, b3)
    [mean] e = GlobalAveragePool (d)
    [flat] y = Flatten (e)}"""


def model():
    """All classes are answered: the mean of the answers is taken out."""
    rng = np.random.default_rng(3)
    w1, w2, w3 = (rng.normal(size=shape).astype(np.float32) for shape in ((4, 3, 3, 3), (6, 4, 1, 1), (5, 6, 1, 1)))
    w1[1], w2[:, 1] = 0, 200
    weights = {"w1": w1, "b1": np.zeros(4, np.float32), "w2": w2, "w3": w3}
    plain = written(TEXT, {**weights, "b3": np.zeros(5, np.float32)})
    return written(TEXT, {**weights, "b3": -answers(plain, images(plain, 24, seed=5))[0].mean(axis=0)})


MODEL = model()
CALIBRATION = images(MODEL, 24, seed=5)


def examiner(x, labels=None):
    given = calibrated(float_graph(MODEL), CALIBRATION)
    return given, Examiner(given, Measured({"x": x}, len(x), labels), lambda what: None)


def test_noise_is_that_of_both_networks_and_layers_have_the_users_names():
    """The ratio of the last layer must be what a user finds by running both models; ReLU's zeros are no clipped values."""
    given, found = examiner(CALIBRATION["x"])
    quantised, report = given.quantised()
    examined = found.examined(quantised, report)
    layers = {layer["name"]: layer for layer in examined.figures()["layers"]}
    assert [(layer["name"], layer["op"]) for layer in examined.figures()["layers"]] == [
        *(("x", INPUT), ("one", "Conv"), ("two", "Conv"), ("three", "Conv"), ("mean", "GlobalAveragePool"))
    ]
    wanted = Divergence("y")
    wanted.extend(answers(quantised, CALIBRATION)[0], answers(MODEL, CALIBRATION)[0])
    assert layers["mean"]["snr_db"] == pytest.approx(wanted.decibels, abs=0.01)
    assert layers["x"]["snr_db"] > layers["one"]["snr_db"] > layers["two"]["snr_db"]
    assert all(layer["clipped"] < 0.02 for layer in layers.values())  # two of the 120 means leave their range by noise
    same = answers(quantised, CALIBRATION)[0].argmax(axis=1) == answers(MODEL, CALIBRATION)[0].argmax(axis=1)
    assert examined.in_int8.agreement == same.mean()
    assert 0.2 < same.mean() < 1


def test_values_beyond_the_range_are_clipped():
    """Samples three times as great as those of the calibration leave the range as often as numpy counts."""
    x = 3 * CALIBRATION["x"]
    given, found = examiner(x)
    quantised, report = given.quantised()
    noise = found.noise(quantised, report)
    quant = report.quants["x"]
    low, high = ((end - quant.zero) * quant.scale for end in (-128.5, 127.5))
    assert noise["x"].clipped == np.count_nonzero((x < low) | (x > high)) > 100
    assert noise["x"].elements == x.size


def test_the_layer_whose_weights_have_no_steps_costs_most():
    """Kept in float alone it must bring nearly all of the noise away: a user would keep another layer in float."""
    given, found = examiner(CALIBRATION["x"])
    costs = found.costs(found.noise(*given.quantised()))
    assert next(iter(costs)) == "two"
    assert costs["two"] > 0.9 > 0.2 > costs["one"]
    (two,) = (layer for layer in found.layers if layer.name == "two")
    kept, report = given.quantised(two.nodes)
    assert "two" in {node.name for node in kept.graph.node}
    assert report.floating[0] == "Conv"
    examined = found.examined(kept, report, costs=costs)
    assert examined.noise["d"].quant is not None
    assert examined.noise["d"].ratio < 0.1


def test_labels_give_top1_and_must_fit():
    """Accuracy is of labels, not of the float network's answers; a label of another network's would count as a mistake."""
    right = answers(MODEL, CALIBRATION)[0].argmax(axis=1)
    right[:6] = (right[:6] + 1) % 5
    given, found = examiner(CALIBRATION["x"], right)
    assert found.judge.in_float.top1 == 0.75
    quantised, _ = given.quantised()
    assert found.judge.results(quantised).top1 == (answers(quantised, CALIBRATION)[0].argmax(axis=1) == right).mean()
    with pytest.raises(DataError, match="label 5 is none of the model's 5 classes"):
        examiner(CALIBRATION["x"], right + 1)


@pytest.mark.parametrize(
    ("shape", "greatest", "wanted"),
    [
        ((1, 4), (0, 2), [2]),
        ((1, 4, 1, 1), (0, 2, 0, 0), [2]),
        ((1, 2, 1, 2), (0, 1, 0, 1), [[[0, 1]]]),
        ((1, 3, 2), (0, 1, 1), [[0, 1, 0]]),
        ((1, 2, 3), (0, 1, 1), [[0, 1, 0]]),
        ((1, 1, 2, 2), (0, 0, 1, 1), None),
        ((1, 1), (0, 0), None),
        ((2,), (1,), [1]),
    ],
)
def test_classes_lie_along_channels(shape, greatest, wanted):
    """Agreement along another axis would compare places instead of classes."""
    answer = np.zeros(shape, np.float32)
    answer[greatest] = 1
    found = classes_of(answer)
    assert wanted is None if found is None else found.tolist() == wanted


def test_detections_are_compared_by_their_scores():
    """The greatest number at a place of a YOLO's answer is a box's, in pixels; nearly all places show no object at all."""
    answer = np.zeros((1, 7, 50), np.float32)
    answer[0, :4] = 100
    answer[0, 5, 3], answer[0, 6, 8], answer[0, 4, 9] = 0.9, 0.3, 0.2
    for one in (answer, answer.swapaxes(1, 2)):
        assert has_boxes(one)
        (found,) = classes_of(one, boxes=True)
        assert {place: int(found[place]) for place in np.flatnonzero(found >= 0)} == {3: 1, 8: 2}
    assert not has_boxes(answer / 100)
    assert not has_boxes(-answer)


def test_agreement_of_detections_leaves_background_out():
    """A network that finds one object of two would agree in all but one of hundreds of places."""
    text = """g (float[N,3,8,8] x) => (float[N,6,64] y) {
        b = Conv (x, w) s = Conv (x, v) t = Sigmoid (s) c = Concat <axis=1> (b, t) y = Reshape (c, shape) }"""
    rng = np.random.default_rng(1)
    weights = {"w": 50 * rng.normal(size=(4, 3, 1, 1)), "v": 3 * rng.normal(size=(2, 3, 1, 1)), "shape": np.array([0, 6, 64])}
    model = written(text, {name: value if name == "shape" else value.astype(np.float32) for name, value in weights.items()})
    samples = images(model, 8)
    given = calibrated(float_graph(model), samples)
    judge = Judge(given.graph, samples, 8, None)
    assert judge.in_float.agreement == 1
    found = judge.results(given.quantised()[0]).agreement
    scores, ours = (answers(one, samples)[0][:, 4:] for one in (model, given.quantised()[0]))
    classes = [np.where(one.max(axis=1) > 0.25, one.argmax(axis=1), -1) for one in (scores, ours)]
    shares = [(a == b)[(a >= 0) | (b >= 0)].mean() for a, b in zip(*classes, strict=True)]
    assert found == pytest.approx(np.mean(shares))
    assert 0.5 < found < 1
