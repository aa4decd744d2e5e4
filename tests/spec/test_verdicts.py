"""An output is judged by what it is, and says why: classes are not the measure of heatmaps, coordinates and embeddings."""

import numpy as np
import pytest

from cnna.spec.verdicts import COSINE, EQUAL, FAIR, GOOD, NOISE, POOR, TOP1, Judged

RNG = np.random.default_rng(1)


def heatmaps():
    """Seventeen maps of one bump each: between the bumps no channel is greater than others but by chance."""
    rows, columns = np.indices((16, 12))
    centres = RNG.uniform(2, 10, (17, 2))
    maps = [np.exp(-((rows - y) ** 2 + (columns - x) ** 2) / 4) for y, x in centres]
    return np.stack(maps)[None].astype(np.float32)


def classes_of_pixels():
    """A class at each pixel that stands out by some spreads."""
    found = RNG.normal(0, 1, (1, 5, 8, 8))
    np.put_along_axis(found, RNG.integers(5, size=(1, 1, 8, 8)), 6.0, 1)
    return found.astype(np.float32)


def softmax():
    """Shares of ten classes."""
    found = np.exp(RNG.normal(0, 1, (1, 10)))
    return (found / found.sum()).astype(np.float32)


def unit():
    """A vector of the length 1."""
    found = RNG.normal(0, 1, (1, 128))
    return (found / np.linalg.norm(found)).astype(np.float32)


def scores():
    """A hundred scores, one of which stands out."""
    found = RNG.normal(0, 1, (1, 100))
    found[0, RNG.integers(100)] = 6
    return found.astype(np.float32)


def boxes_and_scores():
    """Sixty places with a box in pixels and three scores from 0 to 1, as a detector decodes them."""
    return np.concatenate([RNG.uniform(0, 640, (1, 60, 4)), RNG.uniform(0, 1, (1, 60, 3))], 2).astype(np.float32)


CASES = {
    "boxes and scores": (boxes_and_scores, NOISE, "boxes and scores at each place"),
    "the same, channels first": (lambda: boxes_and_scores().transpose(0, 2, 1), NOISE, "boxes and scores at each place"),
    "heatmaps": (heatmaps, NOISE, "no channel stands out"),
    "segmentation": (classes_of_pixels, TOP1, "stands out at each place"),
    "shares": (softmax, TOP1, "add up to 1"),
    "scores": (scores, TOP1, "stands out"),
    "normalised embedding": (unit, COSINE, "length 1"),
    "embedding": (lambda: RNG.normal(0, 3, (1, 256)).astype(np.float32), COSINE, "long vector"),
    "coordinates": (lambda: (np.linspace(0, 1, 10) + RNG.normal(0, 0.01, 10))[None].astype(np.float32), NOISE, "always the same"),
    "depth": (lambda: RNG.uniform(1, 9, (1, 1, 6, 6)).astype(np.float32), NOISE, "one value at each place"),
    "a number": (lambda: RNG.normal(size=(1, 1)).astype(np.float32), NOISE, "one value"),
    "integers": (lambda: RNG.integers(9, size=(1, 4)), EQUAL, "whole numbers"),
}


def judged(make, noise=0.0, name="y", metric=None, samples=6):
    """An output whose values differ from float by so much of their spread."""
    found = Judged(name, metric)
    for _ in range(samples):
        theirs = make()
        ours = theirs + RNG.normal(0, 1, theirs.shape) * noise * theirs.std()
        found.add((np.rint(ours) if theirs.dtype.kind == "i" else ours).astype(theirs.dtype), theirs)
    return found


@pytest.mark.parametrize("case", CASES)
def test_an_output_is_judged_by_what_it_is(case):
    """A keypoint network that equals float would be '70 % agreement', since between its bumps the greatest channel is chance."""
    make, metric, why = CASES[case]
    found = judged(make, 0.01)
    assert found.choice[0] == metric
    assert why in found.choice[1]
    assert found.verdict == GOOD
    assert found.figures()["why"] == found.choice[1]


@pytest.mark.parametrize(
    ("name", "metric"),
    [("face_embedding", COSINE), ("logits", TOP1), ("keypoints", NOISE), ("image_embeds", COSINE), ("bbox", NOISE)],
)
def test_a_name_says_what_values_do_not(name, metric):
    """Twelve numbers may be scores, coordinates or an embedding."""
    found = judged(lambda: RNG.normal(size=(1, 12)).astype(np.float32), 0.01, name)
    assert found.choice[0] == metric
    assert name.startswith(found.choice[1].split("'")[1][:2]) or found.choice[1].split("'")[1] in name


@pytest.mark.parametrize("metric", [TOP1, NOISE, COSINE, EQUAL])
def test_the_user_may_choose(metric):
    """The verdict would be another's; where an output has no classes, top-1 cannot be asked for."""
    found = judged(scores, 0.01, metric=metric)
    assert found.choice == (metric, "--metric asks for it")
    value = found.figures()["value"]
    assert value == found.values[metric]
    assert judged(CASES["depth"][0], metric=TOP1).choice[0] == NOISE


@pytest.mark.parametrize(("noise", "verdict"), [(0.01, GOOD), (0.2, FAIR), (1.0, POOR)])
def test_noise_lowers_the_verdict(noise, verdict):
    """Each verdict must be within reach: 40, 14 and 0 dB of a map without a mean."""
    assert judged(lambda: RNG.normal(size=(1, 1, 20, 20)).astype(np.float32), noise).verdict == verdict


@pytest.mark.parametrize(("ours", "theirs", "verdict"), [(0.0, 0.0, GOOD), (1.0, 0.0, POOR), (2.0, 2.0, GOOD)])
def test_without_noise_or_signal(ours, theirs, verdict):
    """Equal answers are good, and noise without a signal is poor; neither has a ratio."""
    found = Judged("y")
    found.add(np.full((1, 1, 2, 2), ours, np.float32), np.full((1, 1, 2, 2), theirs, np.float32))
    assert found.verdict == verdict
    assert found.figures()["value"] is None
    assert found.said.split()[-1] in ("equal", "signal")


def test_the_cosine_of_integers_is_there_for_who_asks():
    """It was "no signal", and poor, of numbers that are nearly all equal."""
    judged = Judged("y", COSINE)
    theirs = np.arange(1, 101)
    judged.add(np.where(theirs == 7, 8, theirs), theirs)
    assert judged.choice[0] == COSINE
    assert judged.verdict == GOOD
