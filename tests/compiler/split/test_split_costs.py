"""What the link takes of a cut, against frames that are counted one by one, and which cut is taken."""

import pytest

from cnna.compiler.split.costs import FRAME_BYTES, MESSAGE_BYTES, SEGMENT_BYTES, Cost, link_seconds, quickest
from cnna.compiler.split.cuts import Crossing, Cut


def cut_of(name: str, *sizes: int) -> Cut:
    """A cut that int8 tensors of so many bytes cross."""
    return Cut(name, frozenset({name}), tuple(Crossing(f"{name}{size}", f"{name}{size}", "int8", (size,)) for size in sizes), 1)


def sent(size: int, mbit: float) -> float:
    """Seconds until the last bit of the last frame has left."""
    left, seconds = size, 0.0
    while left > 0:
        carried = min(left, SEGMENT_BYTES)
        seconds += 8 * (carried + FRAME_BYTES) / mbit / 1e6
        left -= carried
    return seconds


@pytest.mark.parametrize("mbit", [0.1, 1, 33.3, 1000])
@pytest.mark.parametrize("sizes", [(1,), (1248,), (1249,), (4096, 17), (150_528,)])
def test_the_link_carries_whole_frames(mbit: float, sizes: tuple[int, ...]) -> None:
    """A link of full frames would be taken for quicker than it is, by the headers' share."""
    assert link_seconds(cut_of("a", *sizes), mbit) == pytest.approx(sent(sum(sizes) + MESSAGE_BYTES, mbit), rel=1e-9)
    assert FRAME_BYTES == 14 + 20 + 32  # Ethernet, IPv4, and TCP with time stamps
    assert SEGMENT_BYTES + FRAME_BYTES == 14 + 1500


def test_the_fewest_seconds_come_first() -> None:
    """One part alone would decide: a cut of few bytes late in a slow edge, or an early one before a slow link."""
    edge, cloud = (0.001, 0.010, 0.100), (0.060, 0.020, 0.001)
    cuts = [cut_of("early", 40_000), cut_of("middle", 4_000), cut_of("late", 10)]
    for mbit, wanted in ((0.1, "late"), (10.0, "middle"), (1000.0, "middle")):
        costs = [
            Cost(cut, *each)
            for cut, each in zip(cuts, zip(edge, [link_seconds(cut, mbit) for cut in cuts], cloud, strict=True), strict=True)
        ]
        assert quickest(costs)[0].cut.node == wanted
    assert [cost.cut.node for cost in quickest(costs)] == ["middle", "early", "late"]


def test_a_cut_that_needs_no_pack_is_taken_where_all_else_is_equal() -> None:
    """The last of two cuts in a row would be left for one that takes a step of the pipeline, some 1 to 2 ms, more."""
    packed = Cut("packed", frozenset({"packed"}), (Crossing("q", "f", "int8", (2,)),), 1)
    plain = Cut("plain", frozenset({"plain"}), (Crossing("f", "f", "float32", (2,)),), 1)
    for mbit in (1.0, 100.0):
        costs = [Cost(cut, 0.004, link_seconds(cut, mbit), 1e-5) for cut in (packed, plain)]
        assert quickest(costs)[0].cut is plain
        assert costs[0].figures()["pack_seconds"] == costs[0].pack > costs[1].pack == 0
    large = Cut("plain", frozenset({"plain"}), (Crossing("f", "f", "float32", (4000,)),), 1)
    small = Cut("packed", frozenset({"packed"}), (Crossing("q", "f", "int8", (4000,)),), 1)
    assert quickest([Cost(cut, 0.004, link_seconds(cut, 1.0), 1e-5) for cut in (large, small)])[0].cut is small  # 12 kB fewer
