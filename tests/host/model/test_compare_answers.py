"""Comparing answers: equal ones are counted, and the first difference is named."""

import numpy as np
import pytest

from cnna.host.model.answers import compare_answers
from cnna.spec.errors import CheckError


def test_equal_answers_are_counted():
    """NaN equals itself here, because both executions made it."""
    y = {"a": np.array([[1.0, np.nan]]), "b": np.zeros((3, 2))}
    assert compare_answers("board", y, "reference", y) == "board == reference: 2 outputs, 8 elements"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (np.array([[1.0, 2.0, 4.0]]), r"board != reference: output y, element \[0, 2\]: 4.0 and 3.0; 1 of 3 elements"),
        (np.array([[1.0, np.nan, 3.0]]), r"element \[0, 1\]: nan and 2.0"),
        (np.array([[1.0, 2.0]]), r"shape \[1, 2\], not \[1, 3\]"),
    ],
)
def test_the_first_difference_is_named(found, said):
    """A check that misses a difference would prove nothing."""
    with pytest.raises(CheckError, match=said):
        compare_answers("board", {"y": found}, "reference", {"y": np.array([[1.0, 2.0, 3.0]])})
