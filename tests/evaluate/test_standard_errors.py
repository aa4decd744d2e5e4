"""Standard errors of figures of a whole set, whose values differ or do not."""

import numpy as np
import pytest

from cnna.evaluate.standard_errors import whole
from cnna.evaluate.tasks.task import Whole

RESAMPLES = 300


def test_a_figure_that_no_drawn_set_changes_has_no_error() -> None:
    """The mean of equal numbers is rounded, and its error would be 5.6e-17."""
    found = whole(Whole(lambda numbers: 0.1, RESAMPLES), 1)
    assert found.value == 0.1
    assert found.standard_error == 0


def test_the_error_of_a_mean_is_that_of_its_samples() -> None:
    """Drawn sets stand for new ones: of a mean, they must say what the formula says."""
    values = np.random.default_rng(1).random(200)
    found = whole(Whole(lambda numbers: float(values[numbers].mean()), RESAMPLES), len(values))
    assert found.standard_error == pytest.approx(values.std() / np.sqrt(len(values)), rel=0.15)
