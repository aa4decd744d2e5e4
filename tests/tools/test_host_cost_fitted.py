"""The fit of the estimate's constants: shares whose greatest relative error no others undercut."""

import numpy as np
import pytest
from fitted import fit


def test_the_greatest_error_is_least():
    """A fit by squares lets one row stand far off, and somebody would move the constants by hand."""
    shares, error = fit([[1.0, 1.0]], np.array([1.0, 3.0]))
    assert (shares.tolist(), error) == ([pytest.approx(1.5)], pytest.approx(0.5))


def test_no_other_shares_are_better():
    """The rows that decide are sought among all; one that is left out would show here."""
    rng = np.random.default_rng(3)
    for _ in range(5):
        sides = rng.uniform(1, 5, (2, 9))
        counted = np.array([0.7, 0.2]) @ sides * rng.uniform(0.8, 1.2, 9)
        shares, error = fit(sides, counted)
        for other in shares * rng.uniform(0.9, 1.1, (500, 2)):
            assert np.abs(other @ sides / counted - 1).max() >= error - 1e-9
        assert np.abs(shares @ sides / counted - 1).max() == pytest.approx(error)


def test_rows_that_say_the_same_decide_once():
    """Many classifiers pack alike: a system of equal rows has no solution."""
    shares, error = fit([[2.0] * 4, [1.0, 1.0, 3.0, 3.0]], np.array([3.0, 3.0, 5.0, 5.0]))
    assert (shares.tolist(), error) == ([pytest.approx(1), pytest.approx(1)], pytest.approx(0, abs=1e-9))


def test_no_work_is_negative():
    """An estimate would give time back for each element."""
    shares, _ = fit([[1.0, 1.0, 1.0], [1.0, 2.0, 3.0]], np.array([3.0, 2.0, 1.0]))
    assert (shares >= 0).all()
