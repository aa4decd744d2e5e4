"""A benchmark as a picture: a panel for each scenario, a group of bars for each line, a colour for each kind of time."""

from collections.abc import Mapping
from typing import Any, BinaryIO

from cnna.evaluate.speed.published import DPU
from cnna.evaluate.speed.scenarios import FIGURES, OFFLINE
from cnna.evaluate.speed.text import COLUMNS, DISCLAIMER, OTHERS, Line, lines_of, number

GREY = "#9a9a9a"
COLOURS = dict(zip((*COLUMNS, OTHERS), ("#8fb8de", "#2f6db5", "#d08c3a", "#3a9a5c", GREY), strict=True))
INVALID, HATCH = "! not valid, says LoadGen", "//"
BAR_INCHES, MARGIN_INCHES, WIDTH_INCHES, DPI = 0.2, 1.1, 9.0, 110
NAMES = 7  # size of letters
DECADES = 30.0  # greatest by least figure of a panel from which on its axis is logarithmic, or short bars would vanish


def picture(found: Mapping[str, Any], file: BinaryIO) -> None:
    """Writes a PNG. ImportError: matplotlib is missing."""
    drawn(found).savefig(file, dpi=DPI, format="png")


def drawn(found: Mapping[str, Any]) -> Any:
    """Draws the matplotlib figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = {name: own for name in FIGURES if (own := [line for line in lines_of(found) if line.scenario == name])}
    heights = [MARGIN_INCHES + BAR_INCHES * sum(len(_bars(line)) + 1 for line in own) for own in panels.values()] or [MARGIN_INCHES]
    figure = Figure(figsize=(WIDTH_INCHES, sum(heights) + 0.3), layout="constrained", dpi=DPI)
    FigureCanvasAgg(figure)
    figure.suptitle(DISCLAIMER, fontsize=NAMES + 2)
    places = figure.subplots(len(heights), 1, squeeze=False, gridspec_kw={"height_ratios": heights})
    for axes, (name, own) in zip(places[:, 0], panels.items(), strict=False):
        _draw(axes, name, own)
    return figure


def _bars(line: Line) -> dict[str, tuple[float, bool]]:
    """By column, the figure and whether LoadGen calls it valid."""
    own = {
        column: (float(line.rows[column]["figure"]), bool(line.rows[column]["valid"])) for column in COLUMNS if column in line.rows
    }
    return {**own, **({OTHERS: (DPU[line.model], True)} if line.scenario == OFFLINE and line.model in DPU else {})}


def _draw(axes: Any, name: str, lines: list[Line]) -> None:
    from matplotlib.patches import Patch

    place, ticks, seen = 0.0, [], dict[str, tuple[str, str | None]]()
    for line in lines:
        bars = _bars(line)
        ticks.append((place + (len(bars) - 1) / 2, f"{line.model}, {line.where}, batch {line.batch or '-'}"))
        for column, (value, valid) in bars.items():
            axes.barh(place, value, 0.85, color=COLOURS[column], hatch=None if valid else HATCH, edgecolor="white")
            axes.text(value, place, f" {number(value)}{'' if valid else ' !'}", va="center", fontsize=NAMES)
            seen |= {column: (COLOURS[column], None)} if valid else {column: (COLOURS[column], None), INVALID: (GREY, HATCH)}
            place += 1
        place += 1
    axes.set_yticks([tick for tick, _ in ticks], [text for _, text in ticks], fontsize=NAMES)
    axes.invert_yaxis()
    spread = [value for line in lines for value, _ in _bars(line).values()]
    wide = max(spread) >= DECADES * min(spread) > 0
    if wide:
        axes.set_xscale("log")
        axes.set_xlim(min(spread) / 2, max(spread) * 3)
    else:
        axes.margins(x=0.12)
    one = FIGURES[name]
    axes.set_xlabel(
        f"{name}: {one.unit} ({'more' if one.higher else 'less'} is better{', logarithmic' if wide else ''})", fontsize=NAMES + 1
    )
    axes.tick_params(axis="x", labelsize=NAMES)
    handles = [Patch(facecolor=colour, hatch=hatch, edgecolor="white", label=label) for label, (colour, hatch) in seen.items()]
    axes.legend(handles=handles, fontsize=NAMES, frameon=False, loc="lower right", ncols=len(seen), bbox_to_anchor=(1, 1))
