"""The handwritten digits as the demo network sees them, split once for training, calibration and test."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FILE, NETWORK = (Path(__file__).with_name(name) for name in ("digits.csv.gz", "digits.onnx"))
SEED = 2024  # of the split; the committed network was trained on the split's training part
TEST, CALIBRATION = 400, 100  # images; the other 1,297 train
SIDE = 8  # pixels of an image of the data set
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
    """The 1,797 images, shuffled by SEED, read as scikit-learn's `load_digits` does."""
    table = np.loadtxt(FILE, delimiter=",")
    pixels, classes = table[:, :-1].reshape(-1, SIDE, SIDE), table[:, -1].astype(np.int64)
    images = np.kron(pixels / 16, np.ones((ENLARGED, ENLARGED))).astype(np.float32)[:, None]
    order = np.random.default_rng(SEED).permutation(len(images))

    def part(first: int, last: int | None) -> Split:
        return Split(images[order[first:last]], classes[order[first:last]])

    return Digits(
        train=part(TEST + CALIBRATION, None),
        calibration=part(TEST, TEST + CALIBRATION),
        test=part(0, TEST),
    )
