"""An exploration as one self-contained HTML page: two linked plots of all points, and a table whose rows copy their `--config`."""

from collections.abc import Sequence
from html import escape
from typing import Any

from cnna.compiler.explore.aim import Aim
from cnna.compiler.explore.drawn import ALONE, TO_ANSWER
from cnna.compiler.explore.point import Point, option
from cnna.compiler.explore.sizes import Budget
from cnna.compiler.report.charts import whole
from cnna.compiler.report.html import script
from cnna.compiler.report.page import CHARTS, Style, page
from cnna.spec.counts import listed, many
from cnna.spec.host_time.end_to_end import rates

_LIGHT, _DARK, _RULES = CHARTS
_STYLE = Style(
    "90rem",
    _LIGHT,
    _DARK,
    _RULES
    + """table { font-size: .85rem } code { font-size: .95em } td, th { white-space: nowrap; padding: .2rem .3rem }
th, td.range { white-space: normal }
th { vertical-align: bottom }
td.word { white-space: normal; min-width: 15rem }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr)); gap: 1rem }
#copied { min-height: 1.5em; color: var(--ink) }""",
)
HEIGHT = 380  # of a plot, in pixels
DDR = "ddr_megabytes_a_second"  # a column only where points differ in it: the table is as wide as a small screen without
COLUMNS = (  # heading, the point's figure, format
    *(("pix", "pix", "d"), ("ci", "ci", "d"), ("co", "co", "d")),
    *(("bank words", "bank_words", ",d"), ("ring words", "ring_words", ",d")),
    *(
        ("batch", "batch", "d"),
        ("DSP48E2", "dsp48e2", ",d"),
        ("BRAM36", "bram36", "g"),
        ("LUTs", "luts", ",d"),
        ("clocks", "predicted_cycles", ",d"),
    ),
    (ALONE, "predicted_fps", ",.1f"),
    (TO_ANSWER, "fps_end_to_end", ",.1f"),
    *(("util.", "predicted_mac_utilization", ".1%"), ("DDR bytes", "predicted_ddr_bytes", ",d")),
    *(("DDR MB/s", DDR, ",d"), ("MHz", "clock_mhz", "d")),
)


def html(name: str, points: Sequence[Point], budget: Budget, library: str, aim: Aim | None = None) -> str:
    """The page. library: as for `report.html.html`. aim: by which points are compared; None: the usual one."""
    aim = aim or Aim()
    best = aim.best(points)
    values = [_value(number, point, point in best) for number, point in enumerate(aim.ranked(points), 1)]
    speeds = sorted({int(value[DDR]) for value in values})
    columns = [column for column in COLUMNS if column[1] != DDR or len(speeds) > 1]
    heads = "".join(f'<th class="sorts">{heading}</th>' for heading, _, _ in columns)
    rows = "\n".join(_row(value, columns) for value in values)
    drawn = {
        "dsp": _plot(values, "dsp48e2", f"DSP48E2, of {budget.dsp:,}", "bram36"),
        "bram": _plot(values, "bram36", f"BRAM36, of {budget.bram36:,}", "dsp48e2"),
    }
    first, clocks = points[0], listed(sorted({point.config.clock_mhz for point in points}))
    memory = listed([f"{speed:,}" for speed in speeds])
    body = f"""<p>{many(len(points), "point")}, compared by images a second from picture to answer, at the slow end of what
is modelled with the host's work done {first.whole.way}. The accelerator alone, at
{clocks} MHz and with {memory} million bytes a second of DDR, is predicted.
Filled: {aim}. Point at a dot for its configuration; a click marks it in both plots
and in the table, and copies the text for <code>--config</code>.</p>
<p id="problem" hidden></p><p id="copied"></p>
<div class="pair"><div class="wide"><div class="chart" id="dsp"></div></div>
<div class="wide"><div class="chart" id="bram"></div></div></div>
<h2>Configurations</h2>
<p>A click on a heading sorts; a click on a row copies its configuration.</p>
<div class="wide"><table class="layers"><thead><tr>{heads}<th class="word sorts">--config</th></tr></thead>
<tbody>
{rows}
</tbody></table></div>
{script(drawn, library)}"""
    return page(f"{name}: at most {budget}", _STYLE, body)


def _value(number: int, point: Point, best: bool) -> dict[str, Any]:
    shown = {"ends": rates(point.answered), "config": option(point.config), "best": best}
    return {**point.figures(), "layer": number, **shown}


def _row(value: dict[str, Any], columns: Sequence[tuple[str, str, str]]) -> str:
    cells = "".join(_cell(head, value[key], form, value["ends"]) for head, key, form in columns)
    text = escape(value["config"])
    shown = text.replace(",", ",<wbr>")
    return f'<tr data-layer="{value["layer"]}" data-copy="{text}">{cells}<td class="word"><code>{shown}</code></td></tr>'


def _cell(head: str, figure: float, form: str, ends: str) -> str:
    """A cell; that of the speed to the answer has both ends, in two lines where there is little room."""
    if head == TO_ANSWER:
        return f'<td class="range" data-value="{figure}">{ends.replace(" to ", " to&nbsp;")}</td>'
    return f'<td data-value="{figure}">{figure:{form}}</td>'


def _plot(values: Sequence[dict[str, Any]], field: str, title: str, colour: str) -> dict[str, Any]:
    """Images a second from picture to answer over one resource; the other one is the colour."""
    figures = [
        {"field": key, "title": heading, "format": ".10~g" if form == "g" else form}
        for heading, key, form in COLUMNS
        if heading != TO_ANSWER
    ]
    tips = [{"field": "config", "title": "--config"}, {"field": "ends", "title": TO_ANSWER}, *figures]
    return whole(
        {
            "data": {"values": list(values)},
            "height": HEIGHT,
            "mark": {"type": "point", "size": 70, "strokeWidth": 1.5},
            "encoding": {
                "x": {"field": field, "type": "quantitative", "axis": {"title": title, "format": ",d"}},
                "y": {
                    "field": "fps_end_to_end",
                    "type": "quantitative",
                    "axis": {"title": "images a second, picture to answer, slow end", "format": ",d"},
                },
                "stroke": {"field": colour, "type": "quantitative", "legend": {"orient": "top", "title": colour.upper()}},
                "fill": {
                    "condition": {"test": "datum.best", "field": colour, "type": "quantitative"},
                    "value": "transparent",
                    "legend": None,
                },
                "opacity": {"condition": {"test": "chosen == 0 || chosen == datum.layer", "value": 1}, "value": 0.15},
                "tooltip": tips,
            },
        }
    )
