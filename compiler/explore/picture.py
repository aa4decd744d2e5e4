"""The explored configurations as a picture: speed over DSPs, block RAM as colour, the best ones joined by a line."""

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from cnna.compiler.explore.explore import Point, pareto
from cnna.compiler.report.axis_numbers import linear

SIZE_INCHES = (9.0, 6.0)


def picture(name: str, points: Sequence[Point], budget: tuple[int, int], file: Path | BinaryIO) -> None:
    """Writes a PNG. budget: DSP48E2 and BRAM36."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    drawn = sorted(points, key=lambda p: -p.bram36)  # of those at one place the cheapest is seen
    dots = axes.scatter([p.dsp for p in drawn], [p.fps for p in drawn], c=[p.bram36 for p in drawn], cmap="viridis", s=30)
    figure.colorbar(dots, ax=axes, label="BRAM36")
    front = steps(points)
    axes.plot([p.dsp for p in front], [p.fps for p in front], drawstyle="steps-post", color="gray", zorder=0, label="none quicker")
    for p in front:
        about = f"{p.config.pix}x{p.config.ci}x{p.config.co}" + (f" b{p.batch}" if p.batch > 1 else "")
        axes.annotate(about, (p.dsp, p.fps), xytext=(-4, 5), textcoords="offset points", fontsize=8, ha="right")
    axes.margins(x=0.12, y=0.1)
    axes.set_xlabel(f"DSP48E2, of {budget[0]:,} (numbers: PIX x CI x CO)")
    axes.set_ylabel("images a second at 300 MHz, predicted")
    linear(axes.xaxis)
    linear(axes.yaxis)
    axes.set_title(f"{name}, at most {budget[0]:,} DSP48E2 and {budget[1]:,} BRAM36")
    axes.legend(loc="lower right")
    figure.savefig(file, dpi=110, format="png")


def steps(points: Sequence[Point]) -> list[Point]:
    """The points that are quicker than every point with no more DSPs, sorted by DSPs."""
    found: list[Point] = []
    for point in sorted(pareto(points), key=lambda p: (p.dsp, -p.fps)):
        if not found or point.fps > found[-1].fps:
            found.append(point)
    return found
