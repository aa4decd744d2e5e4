"""Tensors of two models that call them differently: which belong together."""

import numpy as np
from numpy.typing import NDArray

from cnna.jobs.matched import Arrays, Factors, Match, named
from cnna.jobs.matched import matched as matched_by

Array = NDArray[np.float32]


def matched(ours: Arrays, theirs: Arrays, factors: Factors | None = None) -> dict[str, Match]:
    """As `matched`; nothing is equalised."""
    return matched_by(ours, theirs, factors or {})


def maps(count: int, seed: int = 0, shape: tuple[int, ...] = (1, 6, 8, 8)) -> list[Array]:
    """Feature maps behind a ReLU."""
    rng = np.random.default_rng(seed)
    return [np.maximum(rng.normal(size=shape), 0).astype(np.float32) for _ in range(count)]


def rounded(x: Array) -> Array:
    """As int8 has it."""
    step = np.float32(x.max() / 127)
    return np.rint(x / step) * step


def test_values_tell_tensors_of_one_shape_apart() -> None:
    """Twenty maps of a stage have one shape; a neighbour's would be compared."""
    theirs = {f"t{number}": x for number, x in enumerate(maps(20))}
    ours = {f"o{number}": rounded(theirs[f"t{number}"]) for number in range(0, 20, 3)}
    found = matched(ours, theirs)
    assert {name: match.name for name, match in found.items()} == {name: name.replace("o", "t") for name in ours}
    assert all(match.scales is None for match in found.values())


def test_channels_that_are_scaled_are_found_with_the_factors_of_the_quantiser() -> None:
    """Equalised tensors would be called noise; factors guessed from the values would hide a channel that was read wrongly."""
    (x,), factors = maps(1), (0.25, 0.5, 1.0, 2.0, 3.0, 4.0)
    y = rounded((x.reshape(6, -1) / np.array(factors, np.float32)[:, None]).reshape(x.shape))
    match = matched({"o": y}, {"t": x}, {"o": ("renamed", factors)})["o"]
    assert (match.name, match.by_value) == ("t", True)
    np.testing.assert_allclose(match.as_ours(x, 6), y, atol=y.max() / 127)
    assert not matched({"o": y}, {"t": x})
    same = matched({"o": y}, {"t": y}, {"o": ("renamed", factors)})["o"]
    assert same.scales is None  # the quantised model itself, whose nodes were renamed


def test_names_before_equalisation_are_known() -> None:
    """A dead channel, or one that is zero in the first sample, has no factor in the values: its tensor would be lost."""
    (x,), ours, theirs = maps(1), (0.5, 2.0, 1.0, 1.0, 1.0, 1.0), (0.25, 2.0, 1.0, 1.0, 1.0, 1.0)
    tensors, factors = {"o:equalised": x, "p": x, "q": x}, {"o:equalised": ("o", ours)}
    found = named(tensors, ["o", "p"], factors, {})
    assert [(match.name, match.by_value) for match in found.values()] == [("o", False), ("p", False)]
    assert found["o:equalised"].scales is not None
    assert tuple(found["o:equalised"].scales) == ours
    assert found["p"].scales is None
    both = named(tensors, ["o:equalised"], factors, {"o:equalised": ("o", theirs)})["o:equalised"]
    assert both.scales is not None  # of two quantised models that other samples have equalised
    assert tuple(both.scales) == (2, 1, 1, 1, 1, 1)
    alone = named({"o": x}, ["o:equalised"], {}, {"o:equalised": ("o", theirs)})["o"]
    assert alone.scales is not None
    assert tuple(1 / alone.scales) == theirs
    assert named(tensors, ["o:equalised"], factors, factors)["o:equalised"].scales is None
    unknown = named(tensors, ["o:equalised"], factors, {})["o:equalised"]
    assert (unknown.name, unknown.scales) == ("o:equalised", None)


def test_what_is_behind_a_relu_is_not_what_is_before_it() -> None:
    """A fused layer gives what is behind its ReLU."""
    before = np.random.default_rng(3).normal(size=(1, 6, 8, 8)).astype(np.float32)
    behind = np.maximum(before, 0)
    assert matched({"o": rounded(behind)}, {"conv": before, "relu": behind})["o"].name == "relu"
    assert matched({"o": rounded(behind)}, {"relu": behind, "conv": before})["o"].name == "relu"


def test_order_decides_where_values_are_equal() -> None:
    """Two blocks that give the same would be crossed."""
    x, y = maps(2)
    theirs = {"a": x, "b": y, "c": x}
    assert [match.name for match in matched({"o": y, "p": x}, theirs).values()] == ["b", "c"]
    assert [match.name for match in matched({"o": x, "p": y}, theirs).values()] == ["a", "b"]
    assert [match.name for match in matched({"o": x, "p": x}, theirs).values()] == ["a", "c"]


def test_branches_in_another_order_are_found() -> None:
    """A tool may sort the nodes of a graph anew."""
    x, y, z = maps(3)
    assert {name: match.name for name, match in matched({"x": x, "y": y, "z": z}, {"z'": z, "x'": x, "y'": y}).items()} == {
        "x": "x'",
        "y": "y'",
        "z": "z'",
    }


def test_what_is_not_alike_is_left_out() -> None:
    """A tensor would be compared with whatever has its shape: a wrong layer would look like quantisation."""
    x, y = maps(2)
    noise = np.random.default_rng(1).normal(size=x.shape) * np.sqrt((x**2).mean())
    noisy = (x + noise).astype(np.float32)  # of as much power as the signal: half of theirs, which is below LEAST
    for theirs in (y, -x, noisy, x * np.nan, x + np.float32(np.inf), x * 0, x.astype(np.int64), x[..., :4]):
        assert not matched({"o": x}, {"t": theirs.astype(theirs.dtype)})
    assert not matched({}, {"t": x})
    assert not matched({"o": x}, {})


def test_axes_may_be_joined() -> None:
    """A Flatten in one model is four axes in the other."""
    (x,) = maps(1)
    assert matched({"o": x}, {"t": x.reshape(1, -1)})["o"].name == "t"
    vector = np.arange(10, dtype=np.float32).reshape(1, 10, 1, 1)
    assert matched({"o": vector}, {"t": vector.reshape(10)})["o"].name == "t"
