"""Inputs that are not pictures: integers, and arrays that are the same for all samples."""

import numpy as np
import pytest

from cnna.host.model.inputs import integers, shared
from cnna.spec.errors import DataError


def test_integers_of_another_size_are_taken_where_they_fit():
    """numpy makes int64 of a list; a model's int32 must get the same numbers or refuse them."""
    found = integers(np.array([1, 2]), "int32", "input size")
    assert (found.dtype, found.tolist()) == (np.dtype("int32"), [1, 2])
    with pytest.raises(DataError, match="input size has values that uint8 does not hold"):
        integers(np.array([1, 256]), "uint8", "input size")
    with pytest.raises(DataError, match="input size is float64, but the model wants int64"):
        integers(np.array([1.5]), "int64", "input size")


def test_what_has_no_axis_of_samples_is_for_all():
    """A threshold would have to be repeated for each image by hand; a single array may never count as one for all samples."""
    shapes = {"x": (3, 2, 2), "size": (2,), "limit": ()}
    given = {"x": np.zeros((4, 3, 2, 2)), "size": np.array([5, 6]), "limit": np.array(0.5)}
    found = shared(given, shapes)
    assert found["size"].tolist() == [[5, 6]] * 4
    assert found["limit"].tolist() == [0.5] * 4
    assert shared({"x": np.zeros((3, 2, 2))}, {"x": (3, 2, 2)})["x"].shape == (3, 2, 2)
