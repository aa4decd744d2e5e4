"""Reads the words of a matplotlib figure, and checks that none lies on another, for the tests of every picture."""

from collections.abc import Iterator
from itertools import combinations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

SLACK_PIXELS = -1.0  # around a word's box, which has some air of its own


def said_and_apart(figure: Figure) -> list[str]:
    """Every word on the axes of a drawn figure. AssertionError: two words overlap."""
    figure.canvas.draw()
    words = [(text.get_text(), text.get_window_extent().padded(SLACK_PIXELS)) for axes in figure.axes for text in _words(axes)]
    words = [(said, box) for said, box in words if said]
    overlaps = [(one, other) for (one, box), (other, place) in combinations(words, 2) if box.overlaps(place)]
    assert not overlaps, overlaps
    return [said for said, _ in words]


def _words(axes: Axes) -> Iterator[Text]:
    """Everything that is drawn: matplotlib also keeps ticks beyond the axes."""
    yield from (axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts)
    if legend := axes.get_legend():
        yield from legend.get_texts()
    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        ticks = (*axis.get_major_ticks(), *axis.get_minor_ticks())
        yield from (tick.label1 for tick in ticks if low <= tick.get_loc() <= high and tick.label1.get_visible())
