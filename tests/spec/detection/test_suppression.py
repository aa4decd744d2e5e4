"""Doubles are found as one box after another would find them, whatever the number of boxes in a block."""

import numpy as np
import pytest

from cnna.spec.detection.suppression import BLOCK, iou, kept


def one_by_one(boxes: np.ndarray, overlap: float) -> list[int]:
    """The definition: each box is compared with all that are kept."""
    found: list[int] = []
    for number in range(len(boxes)):
        if (iou(boxes[number : number + 1], boxes[found])[0] <= overlap).all():
            found.append(number)
    return found


@pytest.mark.parametrize("count", [0, 1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
@pytest.mark.parametrize("overlap", [0.0, 0.3, 1.0])
def test_blocks_keep_what_single_boxes_keep(count: int, overlap: float) -> None:
    """A box would suppress others though an earlier one has suppressed it, or doubles across blocks would stay."""
    rng = np.random.default_rng(count)
    low = rng.integers(0, 20, (count, 2))
    boxes = np.concatenate([low, low + rng.integers(0, 12, (count, 2))], axis=1).astype(np.float32)
    assert kept(boxes, overlap).tolist() == one_by_one(boxes, overlap)
