"""A benchmark as a picture: its axes are linear until short bars would vanish."""

import pytest

from cnna.evaluate.speed.picture import DECADES, INVALID, drawn

from .test_compare import benchmark, row


@pytest.mark.parametrize(("most", "scale"), [(DECADES * 10 - 1, "linear"), (DECADES * 10, "log")])
def test_figures_that_span_decades_have_a_logarithmic_axis(most: float, scale: str) -> None:
    """The bar of a quick model beside a slow one would be a line without width."""
    found = benchmark(row("SingleStream", "predicted", 10.0), row("SingleStream", "measured", most))
    (axes,) = drawn(found).axes
    assert axes.get_xscale() == scale
    assert ("logarithmic" in axes.get_xlabel()) == (scale == "log")


def test_the_legend_says_what_is_hatched() -> None:
    """Where the first bar of a kind was not valid, its whole kind looked hatched, and nothing said what that means."""
    found = benchmark(row("Server", "predicted", 30.0, valid=False, why_invalid="why"), row("Server", "measured", 40.0))
    (axes,) = drawn(found).axes
    legend = axes.get_legend()
    shown = {label.get_text(): patch.get_hatch() for label, patch in zip(legend.get_texts(), legend.get_patches(), strict=True)}
    assert shown.pop(INVALID)
    assert shown == {"predicted": None, "measured": None}
