"""scikit-learn's handwritten digits as the demo network sees them, split once for training, calibration and test."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

SEED = 2024  # of the split; the committed network was trained on the split's training part
TEST, CALIBRATION = 400, 100  # images; the other 1,297 train
ENLARGED = 2  # pixels of the network's input for one of the data set, in both directions


@dataclass(frozen=True)
class Split:
    """Images float32 [n, 1, 16, 16] within 0..1, and their classes int64 [n]."""

    images: NDArray[np.float32]
    classes: NDArray[np.int64]


@dataclass(frozen=True)
class Digits:
    """Three parts that have no image in common."""

    train: Split
    calibration: Split
    test: Split


def load() -> Digits:
    """The 1,797 images that scikit-learn ships, shuffled by SEED. They need no download."""
    bunch = load_digits()
    images = np.kron(bunch.images / 16, np.ones((ENLARGED, ENLARGED))).astype(np.float32)[:, None]
    order = np.random.default_rng(SEED).permutation(len(images))

    def part(first: int, last: int | None) -> Split:
        return Split(images[order[first:last]], bunch.target[order[first:last]].astype(np.int64))

    return Digits(
        train=part(TEST + CALIBRATION, None),
        calibration=part(TEST, TEST + CALIBRATION),
        test=part(0, TEST),
    )
