"""The figures of a divergence, with cases computed by hand."""

import json
import math

import numpy as np
import pytest

from cnna.host.model.divergence import Divergence, OutputDivergence, squeezed
from cnna.spec.verdicts import FAIR, GOOD, POOR


def of(ours, theirs) -> Divergence:
    """The divergence of one pair of tensors."""
    found = Divergence("t")
    found.extend(np.array(ours), np.array(theirs))
    return found


def test_the_figures_are_relative_to_the_other_models_range() -> None:
    """A difference of 1 is nothing for a tensor of thousands, and everything for one below 1."""
    found = of([1.0, 2.0, -3.0, 4.0], [0.0, 2.0, -4.0, 4.0])
    assert found.span == 8
    assert found.figures() == {
        "name": "t",
        "elements": 4,
        "greatest": 1 / 8,
        "mean": 0.5 / 8,
        "cosine": pytest.approx(32 / math.sqrt(30 * 36)),
        "snr_db": pytest.approx(10 * math.log10(36 / 2)),
        "equal": 0.5,
        "not_finite": 0,
    }


def test_samples_one_by_one_are_the_same_as_all_at_once() -> None:
    """Sums that began anew with each sample would show only the last one."""
    rng = np.random.default_rng(1)
    ours, theirs = rng.standard_normal((2, 5, 7))
    whole, parts = of(ours, theirs), Divergence("t")
    for a, b in zip(ours, theirs, strict=True):
        parts.extend(a, b)
    assert parts.figures() == pytest.approx(whole.figures())


@pytest.mark.parametrize(
    ("ours", "theirs", "decibels", "cosine"),
    [
        ([1.0, 2.0], [1.0, 2.0], math.inf, 1.0),
        ([0.0, 0.0], [0.0, 0.0], math.inf, None),
        ([1.0, 0.0], [0.0, 0.0], -math.inf, None),
        ([np.inf, 2.0], [1.0, 2.0], -math.inf, 1.0),
        ([-np.inf, np.nan, 2.0], [-np.inf, np.nan, 2.0], math.inf, 1.0),
    ],
)
def test_without_noise_or_signal(ours: list[float], theirs: list[float], decibels: float, cosine: float | None) -> None:
    """There would be a division by zero, or figures that JSON lacks. What is infinite on one side only is the worst case."""
    found = of(ours, theirs)
    assert found.decibels == decibels
    assert found.cosine == (cosine if cosine is None else pytest.approx(cosine))
    assert found.figures()["snr_db"] is None
    assert json.loads(json.dumps(found.figures(), allow_nan=False)) == found.figures()


@pytest.mark.parametrize(("theirs", "span"), [([3.0, 3.0], 3.0), ([0.0], 1.0), ([np.nan], 1.0), ([-2.0, 1.0], 3.0)])
def test_the_range_of_a_constant_is_its_magnitude(theirs: list[float], span: float) -> None:
    """A share of a range of 0 would be infinite."""
    assert of([1.0] * len(theirs), theirs).span == span


def test_greatest_values_are_compared_where_an_output_looks_like_scores() -> None:
    """There must be one axis of classes in each answer; the place of a greatest pixel means nothing."""
    scores = OutputDivergence("y")
    scores.compare(np.array([[0.1, 0.9, 0.2]]), np.array([[0.2, 0.8, 0.1]]))
    scores.compare(np.array([[0.5, 0.4, 0.2]]), np.array([[0.4, 0.5, 0.1]]))
    assert scores.figures()["same_top1"] == 0.5
    pixels, classes = OutputDivergence("y"), OutputDivergence("y")
    pixels.compare(np.ones((1, 2, 3)), np.ones((1, 2, 3)))
    classes.compare(np.array([4]), np.array([4]))
    assert pixels.figures()["same_top1"] is classes.figures()["same_top1"] is None
    assert classes.whole
    assert not pixels.whole


def test_answers_of_another_shape_are_counted() -> None:
    """Detectors answer with as many boxes as they find: these cannot be compared, which must be said without a crash."""
    boxes = OutputDivergence("boxes")
    boxes.compare(np.ones((3, 4)), np.ones((2, 4)))
    boxes.compare(np.ones((2, 4)), np.ones((2, 4)))
    figures = boxes.figures()
    assert (figures["samples"], figures["other_shape"], figures["elements"]) == (2, 1, 8)


def test_axes_of_one_do_not_count() -> None:
    """[1, 10, 1, 1] on the accelerator is [1, 10] in the model."""
    assert squeezed((1, 10, 1, 1)) == squeezed((1, 10)) == (10,)


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        ([[[10.0, 0.5], [5.0, 0.0]]], [[[10.0, 0.0], [5.0, 0.0]]], GOOD),  # 27 dB
        ([[[10.0, 2.0], [5.0, 0.0]]], [[[10.0, 0.0], [5.0, 0.0]]], FAIR),  # 15 dB
        ([[[10.0, 9.0], [5.0, 0.0]]], [[[10.0, 0.0], [5.0, 0.0]]], POOR),  # 1.9 dB
        ([[9.9, 10.0]], [[10.0, 9.9]], POOR),  # 40 dB, but another class
        ([[1, 2, 3, 4]], [[1, 2, 3, 4]], GOOD),
        ([[1, 2, 3, 4]], [[1, 2, 3, 5]], FAIR),
        ([[1, 2]], [[3, 4]], POOR),
        ([[1.0, 2.0, 3.0]], [[1.0, 2.0]], POOR),
    ],
)
def test_verdicts(ours: list[object], theirs: list[object], verdict: str) -> None:
    """A poor agreement must be called poor, whatever kind of output shows it."""
    output = OutputDivergence("y")
    output.compare(np.array(ours), np.array(theirs))
    assert output.verdict == output.figures()["verdict"] == verdict
