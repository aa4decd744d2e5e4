"""The line about pictures also says when scale, mean and std are of different units."""

import numpy as np
import pytest

from cnna.host.samples.preparation import preparation
from cnna.spec.samples.preprocess import Preprocess

IMAGENET, CAFFE = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)), ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))


def line(how: Preprocess) -> str:
    """What is said of a picture for a small input."""
    return preparation((3, 8, 8), how).line()


@pytest.mark.parametrize(
    "how",
    [
        Preprocess(1 / 255, *CAFFE),
        Preprocess(1.0, *IMAGENET),
        Preprocess(1 / 255, CAFFE[0]),
        Preprocess(1 / 255, (0.5,), CAFFE[1]),
        Preprocess(2.0, (-300.0,)),
    ],
)
def test_numbers_of_different_units_are_doubted_with_what_they_make(how: Preprocess) -> None:
    """A mean of 0 to 255 with a scale of 1/255 makes nearly one number of all pixels, and the model is quantised for that."""
    made = how.apply(np.array([0, 255], np.uint8).reshape(2, 1, 1, 1).repeat(3, 1))
    assert f"makes {made.min():.3g} to {made.max():.3g} of 0 to 255, so check that scale, mean and std have the same unit" in line(
        how
    )


@pytest.mark.parametrize(
    "how",
    [
        Preprocess(1 / 255, *IMAGENET),
        Preprocess(1.0, *CAFFE),
        Preprocess(1.0, CAFFE[0]),
        Preprocess(1 / 127.5, (1.0,)),
        Preprocess(
            1 / 255,
        ),
        Preprocess(
            1.0,
        ),
        Preprocess(-1 / 255, (-1.0,)),
        Preprocess(1 / 128, (1.0,)),
        Preprocess(0.0039, (1.0,)),
    ],
)
def test_usual_numbers_are_not_doubted(how: Preprocess) -> None:
    """A doubt about each model would not be read."""
    assert "check" not in line(how)


def test_a_model_that_takes_pixels_as_they_are_is_not_doubted() -> None:
    """Its scale, mean and std are not used."""
    assert "check" not in preparation((3, 8, 8), Preprocess(1.0, *IMAGENET), whole=True).line()
