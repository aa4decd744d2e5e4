"""A benchmark as a picture: its axes are linear until short bars would vanish."""

import pytest

from cnna.evaluate.speed.picture import DECADES, drawn

from .test_compare import benchmark, row


@pytest.mark.parametrize(("most", "scale"), [(DECADES * 10 - 1, "linear"), (DECADES * 10, "log")])
def test_figures_that_span_decades_have_a_logarithmic_axis(most: float, scale: str) -> None:
    """The bar of a quick model beside a slow one would be a line without width."""
    found = benchmark(row("SingleStream", "predicted", 10.0), row("SingleStream", "measured", most))
    (axes,) = drawn(found).axes
    assert axes.get_xscale() == scale
    assert ("logarithmic" in axes.get_xlabel()) == (scale == "log")
