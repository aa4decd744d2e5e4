"""The report as one self-contained HTML page, light or dark as the reader's system asks.

Vega-Lite draws the charts (`charts`) in the browser. Its JavaScript is inside the page (`library`), so no network is needed. The
network's graph is drawn here, as SVG (`drawing`).
"""

import json
from collections.abc import Mapping
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from cnna.compiler.report.charts import ENGINE_COLOURS, RAMPS, charts
from cnna.compiler.report.layout import Spot, layered, path
from cnna.compiler.report.network import ENGINE, LAYER, NAME, OP
from cnna.compiler.report.page import CHARTS, Style, key_entry, page
from cnna.compiler.report.pieces_section import pieces_section
from cnna.compiler.report.report import Figures, for_ddr
from cnna.compiler.report.table import WORDS, bound, cell, of_batch, stalls_text
from cnna.spec.errors import ToolError
from cnna.spec.extras import install
from cnna.spec.files import write_text
from cnna.spec.host_time.end_to_end import ALONE, TO_ANSWER, modelled, way
from cnna.spec.host_time.piece_times import PieceTime, several
from cnna.spec.manifest import CPU

NO_BREAK = "\u00a0"
PACKAGE = "vl-convert-python"  # brings the JavaScript of the charts

_BOX, _END = (168.0, 36.0), (120.0, 20.0)  # sizes of a layer's box, and of an input's or output's
_LETTERS = {_BOX[0]: 23, _END[0]: 16}  # that fit into a box of that width
_OTHER = "#8fa3b8"  # the colour of what no engine does

_LIGHT, _DARK, _RULES = CHARTS
_STYLE = Style(
    "90rem",
    f"--predicted: #8fa3b8; {_LIGHT}",
    f"--predicted: #8496a9; {_DARK}",
    _RULES
    + """table { white-space: nowrap; font-size: .87rem }
th.group { text-align: center } th.edge, td.edge { border-left: 1px solid var(--line) }
table.totals { font-size: 1rem; margin-top: 1rem; white-space: normal } table.totals tbody tr { background: none }
td.bars { min-width: 3.5rem }
table.layers { font-size: .8rem } table.layers th, table.layers td { padding: .2rem .4rem } table.layers th { white-space: normal }
table.layers td.name { max-width: 14rem; overflow: hidden; text-overflow: ellipsis }
@media (max-width: 80rem) { table.layers td.name { max-width: 8rem } }
@media (max-width: 40rem) { table.totals { font-size: .85rem } table.totals th, table.totals td { padding: .2rem .3rem } }
table.layers td.stalls { white-space: normal; min-width: 7rem }
td.bars i { display: block; height: .45rem; border-radius: 2px; background: var(--predicted); margin: 1px 0 }
td.bars i.measured, p.key i.measured { background: var(--measured) }
.graph { overflow: auto; max-height: 80vh; border: 1px solid var(--line); border-radius: 4px }
.graph svg { display: block; margin: 0 auto } .graph g[data-layer] { cursor: pointer }
.graph text { fill: var(--ink); font: 11px system-ui, sans-serif } .graph text.op { font-size: 12px; font-weight: 600 }
.graph text.end { text-anchor: middle } .graph rect { stroke: var(--dim); stroke-width: .7 }
.graph rect:not(.engine) { fill: var(--soft) } .graph g.chosen rect:not(.engine) { fill: var(--chosen) }
.graph .line { fill: none; stroke: var(--dim); stroke-width: 1.2 }
p.key i { display: inline-block; width: 1rem; height: .6rem; border-radius: 2px; background: var(--predicted);
  margin: 0 .3rem 0 0 } p.key .entry { margin-right: .7rem }""",
)
_BODY = Template("""<p>$about</p>
<p id="problem" hidden></p>
<div class="wide"><table class="totals">
$totals
</table></div>
$pieces<h2>Over time</h2>
<p>The wheel zooms, dragging moves, and a double click shows the whole run again; all charts over time follow. A click on a bar
marks its layer everywhere; a click beside it shows all. Neighbouring layers differ in shade.$began</p>
$over_time
<h2>Where the array's clocks go</h2>
<div class="wide"><div class="chart" id="array"></div></div>
<h2>Roofline</h2>
<p>Each layer that multiplies; point at one for its name. A layer above the memory's roof had its weights fetched while the one
before it ran.</p>
<div class="wide"><div class="chart" id="roofline"></div></div>
$graph<h2>Engines</h2>
<div class="wide"><table>
$engines
</table></div>
<h2>Layers</h2>
<p class="key">The clocks of a layer include those in which the array waits for it. A click on a heading sorts, a click on a row
marks the layer in the charts. Bars: $key</p>
<div class="wide"><table class="layers">
$layers
</table></div>
$script""")
_OVER_TIME = {  # place on the page: heading
    "engines": "",
    "memory": "Words of feature memory: which tensor lies where, from its first write to its last use (predicted)",
    "ddr": "Bytes that DDR moves in a clock (predicted; the bytes of a command are spread evenly over its bar)",
}
_BEGAN = (
    " A measured bar begins when its command could begin: the run counts only when commands end. A bar of weights goes from their"
    " first beat to their last."
)
_LAYER_COLUMNS = {  # group: (heading, key, format)
    "": (("layer", "name", "{}"), ("clocks", "bars", ""), ("op", "op", "{}"), ("engine", "engine", "{}"), ("MACs", "macs", "{:,}")),
    "predicted": (
        ("clocks", "predicted_cycles", "{:,}"),
        ("util.", "predicted_mac_utilization", "{:.1%}"),
        ("DDR read", "predicted_ddr_read_bytes", "{:,}"),
        ("written", "predicted_ddr_write_bytes", "{:,}"),
        ("longest engine", "bound", "{}"),
    ),
    "measured": (
        ("clocks", "cycles", "{:,.0f}"),
        ("util.", "mac_utilization", "{:.1%}"),
        ("DDR read", "ddr_read_bytes", "{:,.0f}"),
        ("written", "ddr_write_bytes", "{:,.0f}"),
        ("stalls", "stalls", "{}"),
    ),
}
_TOTALS = (
    ("cycles", "clocks", "{:,.0f}"),
    ("fps", f"images a second {ALONE} at {{clock_mhz}} MHz", "{:,.1f}"),
    ("fps_end_to_end", f"images a second {TO_ANSWER}", "{:,.1f}"),
    ("mac_utilization", "of the array's MACs used", "{:.1%}"),
    ("ddr_read_bytes", "DDR bytes read", "{:,.0f}"),
    ("ddr_write_bytes", "DDR bytes written", "{:,.0f}"),
)


def html(found: Figures, library: str) -> str:
    """The page. library: the JavaScript that defines `vegaEmbed` (`vega.library`)."""
    measured, title = found["measured"], f"{found['name']} on {found['config']}, batch {found['batch']}"
    drawn = charts(found)
    body = _BODY.substitute(
        about=f"{found['macs']:,} MACs an image, {found['macs_per_cycle']:,} a clock at most; {found['program_writes']:,} register "
        f"writes, {found['segments']['constant']:,} bytes of constants, {found['segments']['workspace']:,} of workspace"
        f"{of_batch(found)}.",
        totals=_totals(found),
        pieces=_pieces(found),
        began=_BEGAN if found["timeline"]["measured"] else "",
        over_time=_places(drawn, found),
        graph=_graph(found),
        engines=_engines(found),
        key=key_entry("", "predicted") + (key_entry('class="measured"', "measured") if measured else ""),
        layers=_layers(found),
        script=script(drawn, library),
    )
    return page(title, _STYLE, body)


def script(drawn: Mapping[str, Any], library: str) -> str:
    """The elements that draw charts in the places of their names. library: the JavaScript that defines `vegaEmbed`."""
    own = own_script("sort.js") + own_script("report.js").replace('"use strict";\n', "")
    data = json.dumps(drawn, separators=(",", ":")).replace("<", "\\u003c")
    return f"<script>\n{library}\n</script>\n<script>\nconst charts = {data}, ramps = {json.dumps(RAMPS)};\n{own}\n</script>"


def own_script(name: str) -> str:
    """The JavaScript of one of this folder's files."""
    return files("cnna.compiler.report").joinpath(name).read_text(encoding="utf-8")


def _places(drawn: Mapping[str, Any], found: Figures) -> str:
    """A place for each chart over time that is drawn, under its heading."""
    headings = {
        **_OVER_TIME,
        "ddr": f"{_OVER_TIME['ddr']}; dashed: {found['ddr_limit']}, {found['ddr_bytes_per_cycle']} bytes a clock",
    }
    return "\n".join(
        f'<p>{escape(heading)}</p>\n<div class="wide"><div class="chart" id="{name}"></div></div>'
        for name, heading in headings.items()
        if name in drawn
    )


def _graph(found: Figures) -> str:
    """The section of the network's graph; empty for older artifacts, which do not say what their layers read."""
    if not found["graph"]:
        return ""
    engines = {box["engine"]: ENGINE_COLOURS.get(box["engine"], _OTHER) for box in found["graph"]["boxes"] if box["engine"]}
    key = "".join(key_entry(f'style="background: {colour}"', engine) for engine, colour in engines.items())
    text = "A click on a box marks its layer in the charts and in the table. Colours: "
    return f'<h2>Graph</h2>\n<p class="key">{text}{key}</p>\n<div class="graph" id="graph">\n{drawing(found["graph"])}\n</div>\n'


def _totals(found: Figures) -> str:
    """A column for each kind of figure, a row for each figure."""
    kinds = [kind for kind in ("predicted", "measured") if found[kind]]
    heads = {"predicted": f"predicted{for_ddr(found)}", "measured": f"measured, {found['device']}"}
    rows = [_tr([("word", ""), *(("", heads[kind]) for kind in kinds)], "th")]
    if "predicted" in kinds and (text := modelled(found["predicted"])):  # never in a line with what a board measures
        shown = [("", text if kind == "predicted" else "-") for kind in kinds]
        rows.append(_tr([("word", f"images a second {TO_ANSWER}, modelled, {way(found['predicted'])}"), *shown]))
    for key, name, form in _TOTALS:
        values = [None if (kind, key) == ("predicted", "fps_end_to_end") else found[kind][key] for kind in kinds]
        if any(value is not None for value in values):
            cells = ["-" if value is None else form.format(value) for value in values]
            rows.append(_tr([("word", name.format(**found)), *(("", text) for text in cells)]))
    return "\n".join(rows)


def _pieces(found: Figures) -> str:
    """The section of pieces and what bounds them; empty if there are not several."""
    times = [PieceTime(**time) for time in found["piece_times"]]
    return f"{pieces_section(times, lambda number, kind: kind)}<p>{escape(bound(found))}.</p>\n" if several(times) else ""


def _engines(found: Figures) -> str:
    heads = ["engine", "commands", "MACs", "DDR read", "written", "busy, predicted", "", "busy, measured", ""]
    rows = []
    for entry in found["engines"]:
        cells = [entry["engine"], *(f"{entry[key]:,}" for key in ("commands", "macs", "ddr_read_bytes", "ddr_write_bytes"))]
        for kind in ("predicted_busy", "busy"):
            clocks, share = entry[f"{kind}_cycles"], entry[f"{kind}_share"]
            cells += ["-" if clocks is None else f"{clocks:,}", "-" if share is None else f"{share:.1%}"]
        rows.append(cells)
    count = len(heads) if found["timeline"]["measured"] else len(heads) - 2
    lines = [_tr([("" if i else "word", text) for i, text in enumerate(row[:count])]) for row in rows]
    head = _tr([("" if i else "word", text) for i, text in enumerate(heads[:count])], "th")
    return f"<thead>{head}</thead>\n<tbody>\n" + "\n".join(lines) + "\n</tbody>"


def _layers(found: Figures) -> str:
    """The table of layers: predicted and measured side by side, and bars of both beside the layer's name."""
    groups = {name: group for name, group in _LAYER_COLUMNS.items() if name != "measured" or found["measured"]}
    heads, names = ['<th class="word sorts">#</th>'], ["<th></th>"]
    for name, group in groups.items():
        edge = " edge" if name else ""
        names.append(f'<th class="group{edge}" colspan="{len(group)}">{name}</th>')
        for index, (heading, key, _) in enumerate(group):
            heads.append(f'<th class="{_kind(key)} sorts{"" if index else edge}">{heading}</th>')
    most = max((max(layer["predicted_cycles"], layer["cycles"] or 0) for layer in found["layers"]), default=0) or 1
    lines = []
    for number, layer in enumerate(found["layers"], 1):
        cells = [f'<td class="word">{number}</td>']
        for name, group in groups.items():
            cells += [
                _cell(layer, key, form, most, " edge" if name and not index else "") for index, (_, key, form) in enumerate(group)
            ]
        lines.append(f'<tr data-layer="{number}">{"".join(cells)}</tr>')
    head = f"<tr>{''.join(names)}</tr>\n<tr>{''.join(heads)}</tr>"
    return f"<thead>{head}</thead>\n<tbody>\n" + "\n".join(lines) + "\n</tbody>"


def _cell(layer: Figures, key: str, form: str, most: float, edge: str) -> str:
    if key == "bars":
        clocks = layer["predicted_cycles"] if layer["cycles"] is None else layer["cycles"]
        return f'<td class="bars" data-value="{clocks}">{_bars(layer, most)}</td>'
    own = f" {key}" if key in ("name", "stalls") else ""
    value = layer[key] if key in layer and isinstance(layer[key], int | float) else None
    data = "" if value is None else f' data-value="{value}"'
    return f'<td class="{_kind(key)}{own}{edge}"{data}{_hint(layer, key)}>{escape(_unbroken(cell(layer, key, form)))}</td>'


def _unbroken(text: str) -> str:
    """The text with line breaks behind commas alone: a cause keeps its clocks."""
    return ", ".join(part.replace(" ", NO_BREAK) for part in text.split(", "))


def _bars(layer: Figures, most: float) -> str:
    bars = f'<i style="width: {100 * layer["predicted_cycles"] / most:.1f}%"></i>'
    if layer["cycles"] is not None:
        bars += f'<i class="measured" style="width: {100 * layer["cycles"] / most:.1f}%"></i>'
    return bars


def _hint(layer: Figures, key: str) -> str:
    """The tooltip of a cell: the whole name, or all causes of stalls."""
    if key == "name":
        return f' title="{escape(layer["name"])}"'
    if key != "stalls" or not layer["stalls"]:
        return ""
    return f' title="{escape(stalls_text(layer["stalls"], len(layer["stalls"])))}"'


def _tr(cells: list[tuple[str, Any]], tag: str = "td") -> str:
    inside = "".join(f'<{tag} class="{kind}">{escape(str(text))}</{tag}>' for kind, text in cells)
    return f"<tr>{inside}</tr>"


def _kind(key: str) -> str:
    return "word" if key in (*WORDS, "bars") else ""


def drawing(found: dict[str, Any]) -> str:
    """The graph of `network` as SVG, from the top to the bottom: a box for each layer, and lines for its tensors.

    A layer's box has its engine's colour, and the number by which `report.js` marks it in all charts. Operators of the CPU, inputs
    and outputs are boxes too.
    """
    sizes = [_BOX if box[OP] else _END for box in found["boxes"]]
    layout = layered(sizes, [(source, target) for source, target in found["edges"]])
    parts = [f'<path class="line" d="{path(points)}"/>' for points in layout.routes.values()]
    parts += [_box(box, size, centre) for box, size, centre in zip(found["boxes"], sizes, layout.centres, strict=True)]
    size = f'width="{layout.width:.0f}" height="{layout.height:.0f}" viewBox="0 0 {layout.width:.0f} {layout.height:.0f}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n' + "\n".join(parts) + "\n</svg>"


def _box(box: dict[str, Any], size: Spot, centre: Spot) -> str:
    (width, height), name = size, box[NAME]
    left, top = centre[0] - width / 2, centre[1] - height / 2
    shown = escape(name if len(name) <= _LETTERS[width] else f"…{name[1 - _LETTERS[width] :]}")
    place = f'x="{left:.1f}" y="{top:.1f}" width="{width}" height="{height}"'
    if not box[OP]:
        text = f'<text class="end" x="{centre[0]:.1f}" y="{centre[1] + 4:.1f}">{shown}</text>'
        return f'<g><title>{escape(name)}</title><rect {place} rx="10"/>{text}</g>'
    engine = box[ENGINE]
    about = f"{name} ({box[OP]}), {'on the CPU' if engine == CPU else f'layer {box[LAYER]}, {engine}'}"
    colour = ENGINE_COLOURS.get(engine, _OTHER)
    bar = f'<rect class="engine" x="{left:.1f}" y="{top:.1f}" width="6" height="{height}" fill="{colour}"/>'
    texts = f'<text class="op" x="{left + 12:.1f}" y="{top + 15:.1f}">{escape(box[OP])}</text>'
    texts += f'<text x="{left + 12:.1f}" y="{top + 29:.1f}">{shown}</text>'
    mark = f' data-layer="{box[LAYER]}"' if box[LAYER] else ""
    return f"<g{mark}><title>{escape(about)}</title><rect {place}/>{bar}{texts}</g>"


def library(cache: Path) -> str:
    """The JavaScript of Vega, Vega-Lite and Vega-Embed as one text of about 0.9 MB.

    It is made once for each version of the package, in seconds, and kept in the folder `cache`.

    ToolError: the package is not installed.
    """
    try:
        import vl_convert

        kept = cache / f"vega-{version(PACKAGE)}.js"
    except ImportError:
        raise ToolError(f"the page's charts need {PACKAGE}: {install('tools')}") from None
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        write_text(kept, vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "<\\/script"))
    return kept.read_text(encoding="utf-8")
