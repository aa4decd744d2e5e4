"""What quantisation costs, as one self-contained HTML page: results, signal to noise of each layer drawn, the costly layers, all.

It reads the figures that `cnna quantize --report F.json` writes.
"""

from collections.abc import Sequence
from html import escape
from math import ceil, floor
from string import Template
from typing import Any

from cnna.compiler.report.page import Style, key_entry, page
from cnna.compiler.report.report import Figures
from cnna.spec.counts import many
from cnna.spec.names import in_line
from cnna.spec.verdicts import decibel_text

LISTED, MARKED = 10, 5  # layers that cost most, in the table and in the drawing
WIDTH, HEIGHT, STEP = 1120, 240, 10  # of the drawing, and decibels between its lines
NARROWEST, PITCH = 360, 24  # of a drawing of few layers, and of a layer in it
WIDEST = 40.0  # a bar
DECIMALS = 4  # of a share, so that one value in a million shows

_STYLE = Style(
    "72rem",
    "--bar: #2f6fbf; --worst: #d1495b; --kept: #8fa3b8;",
    "--bar: #5a96e0; --worst: #ee7080; --kept: #8496a9;",
    """table { font-size: .9rem } th, td { text-align: right } td.word, th.word { text-align: left }
.wide th, .wide td { white-space: nowrap }
table.noise td:nth-child(2) { white-space: normal; min-width: 9rem; overflow-wrap: break-word }
@media (max-width: 40rem) { th, td { padding: .2rem .3rem } .wide th { white-space: normal }
  table.noise td:nth-child(2) { min-width: 6rem } }
tbody tr:nth-child(odd) { background: var(--soft) }
svg { width: 100%; height: auto; display: block; font-size: 12px }
svg .right { text-anchor: end; fill: var(--dim) } svg .middle { text-anchor: middle; fill: var(--dim) }
svg .number { text-anchor: middle; fill: var(--ink); font-size: 10px } svg .grid { stroke: var(--line) }
svg .axis { stroke: var(--dim) } .bar { fill: var(--bar); background: var(--bar) }
.worst { fill: var(--worst); background: var(--worst) } .kept { fill: var(--kept); background: var(--kept) }
i { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin-right: .3rem } .entry { margin-right: .7rem }""",
)
_BODY = Template("""<p>$about</p>
<table>
$results
</table>
$outputs
$search<h2>Signal to noise, layer by layer</h2>
<p>Each bar is the output of a layer in the quantised network, beside the same tensor in the float network. It carries the noise of
all layers before it too.</p>
<p>$key</p>
<div class="wide">$drawing</div>
<h2>The layers that cost most</h2>
<p>Cost is the share of the noise in the model's outputs that goes if this layer alone stays in float; below zero, if its noise
cancels that of others. It is measured in int8 throughout and without --effort, for the $candidates layers that add most noise.</p>
<div class="wide"><table class="noise">
$worst
</table></div>
<h2>All layers</h2>
<p>Clipped is the share of the values that int8 cannot hold in the tensor's range.</p>
<div class="wide"><table class="noise">
$layers
</table></div>""")


def noise_page(found: Figures) -> str:
    """The page."""
    numbers = {layer["name"]: number for number, layer in enumerate(found["layers"], 1)}
    rows = [_row(number, layer) for number, layer in enumerate(found["layers"], 1)]
    worst = [found["layers"][numbers[name] - 1] for name in found["worst"][:LISTED]]
    body = _BODY.substitute(
        about=escape(about(found)),
        results=_results(found),
        outputs=_outputs(found),
        search=f"<p>{escape(found['search']['said'])}</p>\n" if found.get("search") else "",
        key="".join(key_entry(f'class="{kind}"', words) for kind, words in _key(found)),
        drawing=_drawing(found["layers"], [layer["name"] for layer in worst[:MARKED] if layer["cost"] > 0]),
        candidates=len(found["worst"]),
        worst=_table([rows[numbers[layer["name"]] - 1] for layer in worst]),
        layers=_table(rows),
    )
    return page(f"{found['name']} in int8", _STYLE, body)


def _key(found: Figures) -> list[tuple[str, str]]:
    """The classes of bars, and what they mean."""
    kept = [("kept", "in float")] if any(not layer["int8"] for layer in found["layers"]) else []
    return [("bar", "int8"), ("worst", "int8, and costs most"), *kept]


def about(found: Figures) -> str:
    """How the network was quantised, and on what it was measured."""
    effort = f", effort {found['effort']}" if found["effort"] else ""
    on = "that calibration has not seen" if found["held_out"] else "of the calibration itself"
    how = f"{found['model']}, quantised with {many(found['calibration_samples'], 'sample')} ({found['method']}{effort})"
    return f"{how}; measured on {many(found['samples'], 'sample')} {on}."


def _results(found: Figures) -> str:
    rows = [("", "float", "int8")]
    if found["float_top1"] is not None:
        rows.append((f"top-1 of {found['classified'][0]}", f"{found['float_top1']:.2%}", f"{found['int8_top1']:.2%}"))
    if found["agreement"] is not None:
        of = f"agreement with float: the greatest class of {in_line(found['classified'])}"
        rows.append((of, "", f"{found['agreement']:.2%}"))
    return f"<thead>{_tr(rows[0], 'th')}</thead>\n<tbody>" + "\n".join(_tr(row) for row in rows[1:]) + "</tbody>"


def _outputs(found: Figures) -> str:
    """A line for each output that is judged."""
    said = (
        f"output {one['name']}: {one['said']} on {one['samples']} of the samples: {one['verdict']} ({one['why']})"
        for one in found["outputs"]
    )
    return "\n".join(f"<p>{escape(line)}</p>" for line in said)


def _row(number: int, layer: Figures) -> tuple[str, ...]:
    clipped = "-" if layer["clipped"] is None else _share(layer["clipped"])
    cost = "-" if layer["cost"] is None else f"{round(layer['cost'], 3) + 0.0:.1%}"  # 0 has no sign
    return str(number), layer["name"], layer["op"], "int8" if layer["int8"] else "float", decibels(layer), clipped, cost


def _share(share: float) -> str:
    """A share of values: that of a single one of many is little, but not 0."""
    least = 10.0 ** -(DECIMALS + 2)
    return "0" if not share else f"< {least:.{DECIMALS}%}" if share < least else f"{share:.{DECIMALS}%}"


def decibels(layer: Figures) -> str:
    """The signal to noise of a layer, as a user reads it."""
    return "-" if layer["snr_db"] is None else decibel_text(layer["snr_db"])


def _table(rows: Sequence[Sequence[str]]) -> str:
    heads = ("#", "layer", "operator", "in", "signal to noise", "clipped", "cost")
    return f"<thead>{_tr(heads, 'th')}</thead>\n<tbody>\n" + "\n".join(map(_tr, rows)) + "\n</tbody>"


def _tr(cells: Sequence[str], tag: str = "td") -> str:
    """A row. Words stand left, numbers right."""
    kinds = ["word"] * len(cells) if len(cells) == 3 else ["", *["word"] * 3, *[""] * (len(cells) - 4)]
    inside = "".join(f'<{tag} class="{kind}">{escape(text)}</{tag}>' for kind, text in zip(kinds, cells, strict=True))
    return f"<tr>{inside}</tr>"


def _drawing(layers: Sequence[Figures], worst: Sequence[str]) -> str:
    """A bar for each layer, from the lowest line up. Costly layers have another colour and their number."""
    known = [layer["snr_db"] for layer in layers if layer["snr_db"] is not None]
    low = min(0, STEP * floor(min(known, default=0) / STEP))
    high = max(low + STEP, STEP * ceil(max(known, default=0) / STEP))
    left, top = 60, 16
    wide = min(WIDTH, max(NARROWEST, left + 10 + PITCH * len(layers)))
    scale, pitch = HEIGHT / (high - low), (wide - left - 10) / max(len(layers), 1)
    width, parts = min(0.8 * pitch, WIDEST), []
    for line in range(low, high + 1, STEP):
        y = top + (high - line) * scale
        parts.append(f'<line class="{"grid" if line else "axis"}" x1="{left}" x2="{wide - 10}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(left - 8, y + 4, f"{line} dB", "right"))
    for number, layer in enumerate(layers, 1):
        x = left + (number - 0.5) * pitch
        parts += _bar(number, layer, (x, width), (top + high * scale, scale), layer["name"] in worst)
    each = max(1, ceil(len(layers) / 40))
    for number in range(each, len(layers) + 1, each):
        parts.append(_text(left + (number - 0.5) * pitch, top + HEIGHT + 16, str(number), "middle"))
    return _svg(wide, top + HEIGHT + 24, parts)


def _bar(number: int, layer: Figures, across: tuple[float, float], up: tuple[float, float], worst: bool) -> list[Any]:
    """One bar: across, its middle and width; up, where 0 dB lies, and the height of a decibel."""
    if layer["snr_db"] is None:
        return []
    (x, width), (zero, scale) = across, up
    y, height = zero - max(layer["snr_db"], 0) * scale, abs(layer["snr_db"]) * scale
    kind = "worst" if worst and layer["int8"] else "bar" if layer["int8"] else "kept"
    said = escape(f"{number} {layer['name']} ({layer['op']}): {decibels(layer)}")
    place = f'x="{x - width / 2:.2f}" y="{y:.1f}" width="{width:.2f}" height="{height:.1f}"'
    marked = [_text(x, y - 3, str(number), "number")] if worst else []
    return [f'<rect class="{kind}" {place}><title>{said}</title></rect>', *marked]


def _text(x: float, y: float, words: str, kind: str) -> str:
    """A text element. `kind` is its class, which says on which side of x it stands."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    """A whole drawing."""
    size = f"max-width: {1.2 * width:.0f}px; min-width: {0.9 * width:.0f}px"  # so that letters are as large as the page's
    return f'<svg viewBox="0 0 {width:.0f} {height:.0f}" style="{size}" role="img">\n' + "\n".join(parts) + "\n</svg>"
