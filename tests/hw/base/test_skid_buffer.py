"""The queue of two: order, no item lost or doubled, at every pace; one item a clock."""

import pytest

from cnna.hw.base.skid_buffer import Pair

from ...rigs.streams import PACES, run_stream

ITEMS = list(range(1, 200))


@pytest.mark.parametrize("pace", PACES)
def test_items_come_out_in_order(pace: str) -> None:
    """An item is lost, doubled, overtaken, or changes while the reader makes it wait."""
    found, _ = run_stream(Pair(8), ITEMS, pace)
    assert found == ITEMS


def test_passes_an_item_a_clock() -> None:
    """A register stage costs the stream more than its latency."""
    _, clocks = run_stream(Pair(8), ITEMS)
    assert clocks == len(ITEMS) + 1
