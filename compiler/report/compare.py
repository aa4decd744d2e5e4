"""Two runs, reports or configurations side by side: the whole, and each layer, in clocks an image. For `cnna compare`."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from html import escape
from math import inf
from typing import Any

from cnna.compiler.report.charts import whole
from cnna.compiler.report.html import script
from cnna.compiler.report.page import CHARTS, Style, page
from cnna.compiler.report.report import Figures
from cnna.compiler.report.table import printed
from cnna.spec.errors import DataError

_LIGHT, _DARK, _RULES = CHARTS
_STYLE = Style("80rem", _LIGHT, _DARK, f"{_RULES}table {{ font-size: .87rem }}")
BAR = 13  # height of a layer's row in the chart, in pixels
QUICKER, SLOWER = "#2a9d8f", "#d1495b"


@dataclass(frozen=True)
class Side:
    """One of the two. kind: "measured" or "predicted". clocks: of an image. layers: clocks of an image, by the layer's name."""

    name: str
    about: str
    kind: str
    clocks: float
    layers: Mapping[str, float]


def side(found: Figures, name: str) -> Side:
    """What `cnna run --json` or `cnna report --json` has written; measured clocks where there are any. DataError: it is neither."""
    total = found.get("measured") or found.get("predicted") or found
    kind = "predicted" if found.get("predicted") and not found.get("measured") else "measured"
    key = "predicted_cycles" if kind == "predicted" else "cycles"
    wrong = DataError(f"{name}: not what --json of cnna run, report, eval or bench writes")
    try:
        batch, cycles, config = found["batch"], total["cycles"], found["config"]
        layers = [(layer["name"], layer[key]) for layer in found["layers"]]
    except (KeyError, TypeError):
        raise wrong from None
    named = isinstance(config, str) and all(isinstance(layer, str) for layer, _ in layers)
    if not named or not all(_is_number(value) for value in (batch, cycles, *(clocks for _, clocks in layers))) or not batch:
        raise wrong
    if not cycles:
        device = found.get("device") or "this device"
        raise DataError(
            f"{name}: {device} counts no clocks; compare runs on rtl or a board, or reports (cnna report M.cnna --json F)"
        )
    own: dict[str, float] = {}
    for layer, clocks in layers:  # layers of several programs may have one name
        own[layer] = own.get(layer, 0.0) + (clocks or 0) / batch
    network = f"{found['name']} on " if found.get("name") else ""
    ddr = total.get("ddr") or found.get("ddr")
    road = ""
    if isinstance(ddr, dict) and {"bytes_per_cycle", "latency_cycles"} <= ddr.keys():
        road = f", DDR of {ddr['bytes_per_cycle']} bytes a clock after {ddr['latency_cycles']}"
    return Side(name, f"{network}{config}, batch {batch}, {kind}{road}", kind, cycles / batch, own)


def _is_number(value: Any) -> bool:
    """Whether the value is a number of at least zero, or None, which stands for what was not measured."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < inf)


def compared(one: Side, other: Side) -> Figures:
    """Both sides, and each layer of either. difference: clocks of the second less those of the first; None: a layer of one side.

    DataError: they have no layer in common.
    """
    if not one.layers.keys() & other.layers.keys():
        raise DataError(f"{one.name} and {other.name} have no layer in common: they are of different networks")
    names = [*one.layers, *(name for name in other.layers if name not in one.layers)]
    layers = []
    for name in names:
        first, second = one.layers.get(name), other.layers.get(name)
        difference = None if first is None or second is None else second - first
        layers.append({"name": name, "a": first, "b": second, "difference": difference})
    return {"a": asdict(one), "b": asdict(other), "ratio": other.clocks / one.clocks, "layers": layers}


def text(found: Figures) -> str:
    """The whole, then a line for each layer, those that differ most first."""
    rows = [("layer", "A", "B", "B - A", "B / A"), *(tuple(map(printed, _cells(layer))) for layer in _by_difference(found))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [f"{key.upper()}: {found[key]['name']}: {found[key]['about']}" for key in ("a", "b")]
    lines.append(_whole(found))
    for row in rows:
        words = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(words).rstrip())
    return "\n".join(lines)


def _whole(found: Figures) -> str:
    a, b = found["a"]["clocks"], found["b"]["clocks"]
    return f"clocks an image: {a:,.0f} and {b:,.0f}, B / A {found['ratio']:.3f}"


def _by_difference(found: Figures) -> list[Figures]:
    """Layers of one side alone come first: they explain the others."""
    return sorted(found["layers"], key=lambda layer: (layer["difference"] is not None, -abs(layer["difference"] or 0)))


def _cells(layer: Figures) -> tuple[str, str, str, str, str]:
    a, b, difference = layer["a"], layer["b"], layer["difference"]
    clocks = ["-" if value is None else f"{value:,.0f}" for value in (a, b)]
    ratio = f"{b / a:.2f}" if difference is not None and a else "-"
    return layer["name"], *clocks, "-" if difference is None else f"{difference:+,.0f}", ratio


def html(found: Figures, library: str) -> str:
    """A page with a bar for each layer's difference, and the table. library: as for `html.html`."""
    rows = "\n".join(_row(number, layer) for number, layer in enumerate(found["layers"], 1))
    heads = "".join(
        f'<th class="sorts{" word" if not n else ""}">{head}</th>' for n, head in enumerate(("layer", "A", "B", "B - A", "B / A"))
    )
    about = "".join(f"<p>{key.upper()}: {escape(found[key]['name'])}: {escape(found[key]['about'])}</p>" for key in ("a", "b"))
    body = f"""{about}
<p id="problem" hidden></p>
<p>{escape(_whole(found))}</p>
<h2>Clocks that a layer takes more in B than in A</h2>
<div class="wide"><div class="chart" id="differences"></div></div>
<h2>Layers</h2>
<p>A click on a heading sorts; a click on a row or a bar marks the layer.</p>
<div class="wide"><table class="layers"><thead><tr>{heads}</tr></thead>
<tbody>
{rows}
</tbody></table></div>
{script({"differences": _chart(found)}, library)}"""
    return page(f"{found['a']['name']} and {found['b']['name']}", _STYLE, body)


def _row(number: int, layer: Figures) -> str:
    name, *cells = _cells(layer)
    ratio = layer["b"] / layer["a"] if layer["difference"] is not None and layer["a"] else None
    values = (layer["a"], layer["b"], layer["difference"], ratio)
    inside = "".join(
        f'<td data-value="{"" if value is None else value}">{cell}</td>' for value, cell in zip(values, cells, strict=True)
    )
    return f'<tr data-layer="{number}"><td class="word">{escape(name)}</td>{inside}</tr>'


def _chart(found: Figures) -> dict[str, Any]:
    values = [
        {"layer": number, **{key: layer[key] for key in ("name", "a", "b", "difference")}}
        for number, layer in enumerate(found["layers"], 1)
        if layer["difference"] is not None
    ]
    number = {"type": "quantitative", "format": ",.0f"}
    return whole(
        {
            "data": {"values": values},
            "height": BAR * max(len(values), 1),
            "mark": {"type": "bar"},
            "encoding": {
                "x": {
                    "field": "difference",
                    "type": "quantitative",
                    "axis": {"title": "clocks an image", "format": ",d", "tickMinStep": 1},
                },
                "y": {"field": "name", "type": "nominal", "sort": None, "axis": {"title": None, "labelLimit": 260}},
                "color": {"condition": {"test": "datum.difference <= 0", "value": QUICKER}, "value": SLOWER},
                "opacity": {"condition": {"test": "chosen == 0 || chosen == datum.layer", "value": 1}, "value": 0.2},
                "tooltip": [{"field": "name"}, *({"field": key, **number} for key in ("a", "b", "difference"))],
            },
        }
    )


def read(content: bytes, name: str) -> Figures:
    """The figures in a file's content. DataError: it is no JSON object."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise DataError(f"{name}: not JSON, as --json of cnna run, report, eval or bench writes it") from None
    if not isinstance(found, dict):
        raise DataError(f"{name}: not what --json of cnna run, report, eval or bench writes")
    return found
