"""The rows that a window reads, compared with trying every tap."""

import numpy as np
import pytest

from cnna.compiler.lower.kernels import reach


@pytest.mark.parametrize("case", range(60))
def test_reach_is_every_tap_inside(case):
    """Rows that are read but not staged would be read from somewhere else."""
    rng = np.random.default_rng(case)
    size, stride, pad, kernel, dilation = (int(rng.integers(*bounds)) for bounds in ((1, 20), (1, 5), (0, 12), (1, 12), (1, 4)))
    first = int(rng.integers(0, 6))
    last = first + int(rng.integers(1, 6))
    taps = [y * stride - pad + k * dilation for y in range(first, last) for k in range(kernel)]
    inside = [tap for tap in taps if 0 <= tap < size]
    low, high = reach(first, last, stride, pad, kernel, dilation, size)
    assert 0 <= low < high <= size
    assert all(low <= tap < high for tap in inside)
    if len(set(inside)) > 1:
        assert (low, high) == (max(0, min(taps)), min(size, max(taps) + 1))
    assert not any(low <= tap < high for tap in taps if not 0 <= tap < size)
