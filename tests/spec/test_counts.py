"""Counts in sentences have the right number."""

from cnna.spec.counts import listed, many


def test_one_is_singular() -> None:
    """A line would say "1 tensors" or "1 entrys"."""
    assert [many(count, "tensor") for count in (0, 1, 2, 1234)] == ["0 tensors", "1 tensor", "2 tensors", "1,234 tensors"]
    assert [many(count, "entry", "entries") for count in (1, 2)] == ["1 entry", "2 entries"]
    assert [listed(range(count)) for count in (1, 2, 3)] == ["0", "0 and 1", "0, 1 and 2"]
