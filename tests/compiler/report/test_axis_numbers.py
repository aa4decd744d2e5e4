"""Numbers at axes have separators, do not overlap, and are never missing, whatever the span."""

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from cnna.compiler.report import axis_numbers

from ..apart import said_and_apart


@pytest.mark.parametrize("least", [0, 1, 900, 10**4])
@pytest.mark.parametrize("times", [1.2, 7, 90, 10**5])
@pytest.mark.parametrize("kind", ["linear", "logarithmic"])
def test_numbers_can_be_read(kind, least, times):
    """On an axis of half a page's width, 1e7, 10^4 or overlapping numbers would send the reader to the table."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    values = [least, round(max(least, 100) * times)]
    axes.plot(values, values)
    if kind == "linear":
        axis_numbers.linear(axes.xaxis)
        axis_numbers.linear(axes.yaxis)
    elif least:
        axes.set(xscale="log", yscale="log")
        axis_numbers.logarithmic(axes.xaxis)
        axis_numbers.logarithmic(axes.yaxis)
    else:
        axis_numbers.from_zero(axes, values)
        axis_numbers.linear(axes.yaxis)
    said = said_and_apart(figure)
    numbers = [int(word.replace(",", "")) for word in said]
    assert said == [f"{number:,}" for number in numbers]
    assert len(set(numbers)) >= 2
