"""Cutting of wide payloads."""

import pytest

from cnna.hw.base.queues import SkidBuffer
from cnna.hw.base.slices import SLICE_BITS, slices

from ...rigs.streams import PACES, run_stream


@pytest.mark.parametrize("bits", [0, 1, SLICE_BITS, SLICE_BITS + 1, 1036, 1516])
def test_slices_cover_every_bit_once(bits: int) -> None:
    """A bit would be lost or doubled, or a slice would be so wide that its enable has too many loads."""
    cut = slices(bits)
    assert [bit for part in cut for bit in range(part.start, part.stop)] == list(range(bits))
    assert all(part.stop - part.start <= SLICE_BITS for part in cut)


@pytest.mark.parametrize("pace", PACES)
def test_slices_of_a_queue_keep_step(pace: str) -> None:
    """Slices that take turns differently would mix the items' parts."""
    items = [number * ((1 << 700) | (1 << 400) | 1) for number in range(1, 60)]
    found, _ = run_stream(SkidBuffer(720), items, pace)
    assert found == items
