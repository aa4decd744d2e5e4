"""An exploration as a table in text, and as a picture: speed to the answer over DSPs."""

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from cnna.compiler.explore.aim import SIZES, Aim
from cnna.compiler.explore.point import Point, option
from cnna.compiler.explore.sizes import Budget
from cnna.compiler.report.axis_numbers import linear
from cnna.spec.host_time.end_to_end import rates

SIZE_INCHES = (9.0, 6.0)  # of the picture
NEAR = 0.07  # share of each axis within which only one of two points is named
ALONE, TO_ANSWER = "fps, accelerator alone", "fps, picture to answer"  # headings
MORE = {  # headings of columns that only some want
    "energy": "mJ a frame",
    "latency": "ms, picture to answer",
    "uram": "URAM288",
    "clock": "MHz",
    "port": "ports",
    "bandwidth": "DDR MB/s",
}


def table(points: Sequence[Point], aim: Aim | None = None) -> str:
    """A line for each point. aim: what is wanted adds its own columns."""
    named = {aim.objective, *aim.axes, *["latency"] * bool(aim.target_ms)} if aim else set[str]()
    more = [name for name in MORE if name in named or (name == "bandwidth" and len({p.bandwidth for p in points}) > 1)]
    sized = ("pix", "ci", "co", "bank words", "ring words", "batch", "DSP48E2", "BRAM36", "LUTs")
    heads = [MORE[name] for name in more]
    rows: list[tuple[str, ...]] = [(*sized, "clocks", ALONE, TO_ANSWER, *heads, "util.", "DDR bytes", "--config")]
    for p in points:
        c = p.config
        sizes = (c.pix, c.ci, c.co, c.bank_words, c.ring_words, p.batch)
        figures = (
            f"{p.dsp:,}",
            f"{p.bram36:g}",
            f"{p.luts:,}",
            f"{p.cycles:,}",
            f"{p.alone:,.1f}",
            rates(p.answered),
            *(_shown(p, name, aim) for name in more if aim),
            f"{p.utilization:.1%}",
            f"{p.bytes:,}",
        )
        rows.append((*map(str, sizes), *figures, option(c)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [[text.rjust(width) for text, width in zip(row[:-1], widths, strict=False)] + [row[-1]] for row in rows]
    return "\n".join("  ".join(line) for line in lines)


def _shown(point: Point, name: str, aim: Aim) -> str:
    """A figure of MORE."""
    if name in SIZES:
        return f"{SIZES[name](point.config):,}"
    if name == "bandwidth":
        return f"{point.bandwidth:,}"
    return f"{1e3 * (point.latency.slow if name == 'latency' else aim.cost(point, name)):,.3g}"


def picture(name: str, points: Sequence[Point], budget: Budget, file: Path | BinaryIO) -> None:
    """Writes a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    drawn = sorted(points, key=lambda p: -p.bram36)  # of the points at one place, the cheapest is drawn last and seen
    dots = axes.scatter([p.dsp for p in drawn], [p.fps for p in drawn], c=[p.bram36 for p in drawn], cmap="viridis", s=30)
    figure.colorbar(dots, ax=axes, label="BRAM36")
    front = steps(points)
    axes.plot([p.dsp for p in front], [p.fps for p in front], drawstyle="steps-post", color="gray", zorder=0, label="none quicker")
    named: list[Point] = []
    for p in front:
        if any(abs(p.dsp - o.dsp) < NEAR * budget.dsp and abs(p.fps - o.fps) < NEAR * front[-1].fps for o in named):
            continue  # its name would lie on the other one's
        named.append(p)
        about = f"{p.config.pix}x{p.config.ci}x{p.config.co}" + (f" b{p.batch}" if p.batch > 1 else "")
        axes.annotate(about, (p.dsp, p.fps), xytext=(-4, 5), textcoords="offset points", fontsize=8, ha="right")
    axes.margins(x=0.12, y=0.1)
    axes.set_xlabel(f"DSP48E2, of {budget.dsp:,} (numbers: PIX x CI x CO)")
    axes.set_ylabel(f"images a second from picture to answer, slow end, modelled ({points[0].whole.way})")
    linear(axes.xaxis)
    linear(axes.yaxis)
    axes.set_title(f"{name}, at most {budget}")
    axes.legend(loc="lower right")
    figure.savefig(file, dpi=110, format="png")


def steps(points: Sequence[Point]) -> list[Point]:
    """The points that are quicker than every point with no more DSPs, sorted by DSPs."""
    found: list[Point] = []
    for point in sorted(points, key=lambda p: (p.dsp, -p.fps, *p.order)):
        if not found or point.fps > found[-1].fps:
            found.append(point)
    return found
