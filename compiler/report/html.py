"""The report as one self-contained HTML page, light or dark as the reader's system asks."""

from html import escape
from string import Template
from typing import Any

from cnna.compiler.report import roofline, svg
from cnna.compiler.report.page import Style, page
from cnna.compiler.report.report import Figures, for_ddr
from cnna.compiler.report.table import WORDS, cell, stalls_text

_STYLE = Style(
    "80rem",
    """--load: #2a9d8f; --weight: #8a6fc9; --conv: #2f6fbf; --vector: #dd8420; --store: #63923a;
  --predicted: #8fa3b8; --measured: #d1495b""",
    """--load: #3fb8a8; --weight: #a38be0; --conv: #5a96e0; --vector: #eb9f45; --store: #84b558;
  --predicted: #8496a9; --measured: #ee7080""",
    """table { white-space: nowrap; font-size: .87rem } th, td { text-align: right }
td.word, th.word { text-align: left } th.group { text-align: center } th.edge, td.edge { border-left: 1px solid var(--line) }
tbody tr:nth-child(odd) { background: var(--soft) }
table.totals { font-size: 1rem; margin-top: 1rem } table.totals tbody tr { background: none }
td.bars { min-width: 5rem }
table.layers { font-size: .8rem } table.layers th, table.layers td { padding: .2rem .4rem }
table.layers td.name { max-width: 10rem; overflow: hidden; text-overflow: ellipsis }
table.layers td.stalls { white-space: normal; min-width: 7rem }
td.bars i { display: block; height: .45rem; border-radius: 2px; background: var(--predicted); margin: 1px 0 }
td.bars i.measured, p.key i.measured { background: var(--measured) }
p.key i { display: inline-block; width: 1rem; height: .6rem; border-radius: 2px; background: var(--predicted);
  margin: 0 .3rem 0 1rem }
svg { width: 100%; height: auto; display: block; font-size: 12px; min-width: 45rem }
svg text { fill: var(--ink) }
svg .right { text-anchor: end; fill: var(--dim) } svg .middle { text-anchor: middle; fill: var(--dim) }
svg .strong { font-weight: 600 } svg .small { font-size: 11px; paint-order: stroke; stroke: var(--soft); stroke-width: 3px }
svg .number { text-anchor: middle; fill: #fff; font-size: 11px }
svg .lane { fill: var(--soft) } svg .grid, svg .axis { stroke: var(--line) } svg .link { stroke: var(--dim); stroke-width: .8 }
svg .roof { fill: none; stroke: var(--ink); stroke-width: 1.5 } svg .thin { stroke-dasharray: 5 4; stroke-width: 1 }
svg circle.predicted { fill: var(--page); stroke: var(--conv); stroke-width: 1.5 }
svg circle.measured { fill: var(--measured) }
svg .load { fill: var(--load) } svg .weight { fill: var(--weight) } svg .conv { fill: var(--conv) }
svg .vector { fill: var(--vector) } svg .store { fill: var(--store) } svg .odd { fill-opacity: .68 }
svg .works { fill: var(--conv) } svg .waits, svg .token { fill: var(--vector) } svg .idle { fill: var(--predicted) }
svg .weights { fill: var(--weight) } svg .feature { fill: var(--load) } svg .write_back { fill: var(--measured) }
svg .residual { fill: #c77dba }""",
)
_BODY = Template("""<p>$about</p>
<table class="totals">
$totals
</table>
<h2>Engines over time</h2>
<p>Each bar is a layer's commands, numbered as in the table below; neighbours differ in shade.$began</p>
<div class="wide">$timeline</div>
<h2>Where the array's clocks go</h2>
<div class="wide">$array</div>
<h2>Roofline</h2>
<p class="key">Each layer that multiplies. The layers with the most clocks are numbered, as in the table below.
Circles are predicted$dots. A layer above the memory's roof had its weights fetched while the one before it ran.</p>
<div class="wide">$roofline</div>
<h2>Engines</h2>
<div class="wide"><table>
$engines
</table></div>
<h2>Layers</h2>
<p class="key">The clocks of a layer include those in which the array waits for it. Bars:<i></i>predicted$key</p>
<div class="wide"><table class="layers">
$layers
</table></div>""")
_BEGAN = " A measured bar begins when its command could begin: the run counts only when commands end."
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
    ("fps_at_300mhz", "images a second at 300 MHz", "{:,.1f}"),
    ("fps_end_to_end", "images a second from end to end", "{:,.1f}"),
    ("mac_utilization", "of the array's MACs used", "{:.1%}"),
    ("ddr_read_bytes", "DDR bytes read", "{:,.0f}"),
    ("ddr_write_bytes", "DDR bytes written", "{:,.0f}"),
)


def html(found: Figures) -> str:
    """The page."""
    measured, title = found["measured"], f"{found['name']} on {found['config']}, batch {found['batch']}"
    body = _BODY.substitute(
        about=f"{found['macs']:,} MACs an image, {found['macs_per_cycle']:,} a clock at most; {found['program_writes']:,} register "
        f"writes, {found['segments']['constant']:,} bytes of constants, {found['segments']['workspace']:,} of workspace.",
        totals=_totals(found),
        began=_BEGAN if found["timeline"]["measured"] else "",
        timeline=svg.timeline(found),
        array=svg.array(found),
        dots=", dots measured" if measured else "",
        roofline=roofline.roofline(found),
        engines=_engines(found),
        key='<i class="measured"></i>measured' if measured else "",
        layers=_layers(found),
    )
    return page(title, _STYLE, body)


def _totals(found: Figures) -> str:
    """A column for each kind of figure, a row for each figure."""
    kinds = [kind for kind in ("predicted", "measured") if found[kind]]
    heads = {"predicted": f"predicted{for_ddr(found)}", "measured": f"measured, {found['device']}"}
    rows = [_tr([("word", ""), *(("", heads[kind]) for kind in kinds)], "th")]
    for key, name, form in _TOTALS:
        values = [found[kind][key] for kind in kinds]
        if any(value is not None for value in values):
            rows.append(_tr([("word", name), *(("", "-" if value is None else form.format(value)) for value in values)]))
    return "\n".join(rows)


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
    heads, names = ['<th class="word">#</th>'], ["<th></th>"]
    for name, group in groups.items():
        edge = " edge" if name else ""
        names.append(f'<th class="group{edge}" colspan="{len(group)}">{name}</th>')
        for index, (heading, key, _) in enumerate(group):
            heads.append(f'<th class="{_kind(key)}{"" if index else edge}">{heading}</th>')
    most = max((max(layer["predicted_cycles"], layer["cycles"] or 0) for layer in found["layers"]), default=0) or 1
    lines = []
    for number, layer in enumerate(found["layers"], 1):
        cells = [f'<td class="word">{number}</td>']
        for name, group in groups.items():
            cells += [
                _cell(layer, key, form, most, " edge" if name and not index else "") for index, (_, key, form) in enumerate(group)
            ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    head = f"<tr>{''.join(names)}</tr>\n<tr>{''.join(heads)}</tr>"
    return f"<thead>{head}</thead>\n<tbody>\n" + "\n".join(lines) + "\n</tbody>"


def _cell(layer: Figures, key: str, form: str, most: float, edge: str) -> str:
    if key == "bars":
        return f'<td class="bars">{_bars(layer, most)}</td>'
    own = f" {key}" if key in ("name", "stalls") else ""
    return f'<td class="{_kind(key)}{own}{edge}"{_hint(layer, key)}>{escape(cell(layer, key, form))}</td>'


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
