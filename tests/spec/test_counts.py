"""Counts in sentences have the right number, and wrong values an end."""

from cnna.spec.counts import listed, many, shown


def test_one_is_singular() -> None:
    """A line would say "1 tensors" or "1 entrys"."""
    assert [many(count, "tensor") for count in (0, 1, 2, 1234)] == ["0 tensors", "1 tensor", "2 tensors", "1,234 tensors"]
    assert [many(count, "entry", "entries") for count in (1, 2)] == ["1 entry", "2 entries"]
    assert [listed(range(count)) for count in (1, 2, 3)] == ["0", "0 and 1", "0, 1 and 2"]


def test_a_long_value_is_cut() -> None:
    """A client would get its megabytes back, or an answer that gRPC cannot carry."""
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value in ("x" * 10**6, [0] * 10**6, {"a": "x" * 10**6}, 10**4000, deep):
        assert len(shown(value)) <= 80
    assert [shown(value) for value in ("a", 2, float("nan"), None, ["all"])] == ["'a'", "2", "nan", "None", "['all']"]
