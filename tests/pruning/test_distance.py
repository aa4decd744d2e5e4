"""How far answers are from those of the whole network: what changes no class counts for nothing, what may change one counts."""

import numpy as np
import pytest

from cnna.pruning.distance import distance

SAMPLES, CLASSES = 5, 7


def _scores(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 2, (SAMPLES, 1, CLASSES))


def _shares(scores: np.ndarray) -> np.ndarray:
    made = np.exp(scores)
    return made / made.sum(axis=-1, keepdims=True)


def test_scores_that_differ_in_size_alone_are_the_same() -> None:
    """Least squares make scores smaller, which changes no class; a choice that shrinks them would be passed over."""
    theirs = _scores(1)
    assert distance(theirs, 0.5 * theirs + 3) == pytest.approx(0, abs=1e-12)
    assert distance(theirs, -theirs) == pytest.approx(2)
    assert 0 < distance(theirs, theirs + 0.1 * _scores(2)) < distance(theirs, theirs + 0.5 * _scores(2))


def test_shares_of_classes_diverge_in_nats() -> None:
    """Hundreds of classes that no network takes for right would count more than the one that is."""
    whole, other = np.array([[[0.5, 0.25, 0.25]]]), np.array([[[0.25, 0.5, 0.25]]])
    assert distance(whole, other) == pytest.approx(0.25 * np.log(2))
    theirs = _shares(_scores(1))
    assert distance(theirs, theirs) == 0
    unlikely = np.array([[0.9, 0.1 - 1e-6, 1e-6]])
    assert distance(unlikely, np.array([[0.9, 0.1 - 1e-5, 1e-5]])) < 1e-4 < distance(unlikely, np.array([[0.1, 0.9 - 1e-6, 1e-6]]))


def test_a_share_of_nothing_is_no_infinity() -> None:
    """One class that float32 rounds to 0 would decide by itself."""
    assert np.isfinite(distance(np.array([[1.0, 0.0, 0.0]]), np.array([[0.0, 1.0, 0.0]])))


@pytest.mark.parametrize("shape", [(SAMPLES, 1), (SAMPLES, 2), (SAMPLES, 4, 6, 6), (SAMPLES,)])
def test_other_answers_are_compared_as_numbers(shape: tuple[int, ...]) -> None:
    """Boxes, maps and single numbers would be taken for classes, and their size would count for nothing."""
    theirs = np.random.default_rng(3).normal(0, 1, shape)
    varies = np.square(theirs - theirs.mean(axis=0)).sum()
    assert distance(theirs, 0.5 * theirs) == pytest.approx(0.25 * np.square(theirs).sum() / varies)


def test_scores_that_are_all_alike_are_no_error() -> None:
    """A network that answers nothing would end in a warning about a division, or in a number that is none."""
    assert distance(np.zeros((SAMPLES, CLASSES)), np.ones((SAMPLES, CLASSES))) == 1
