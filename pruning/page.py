"""What pruning did, as one self-contained HTML page: each layer before and after, and the channels that had to stay."""

from collections.abc import Sequence
from html import escape
from typing import Any

from cnna.compiler.report.page import Style, page
from cnna.spec.names import in_line

_STYLE = Style(
    "72rem",
    "--bar: #2f6fbf; --gone: #c9d6e6;",
    "--bar: #5a96e0; --gone: #3a4656;",
    """table { font-size: .9rem } th, td { text-align: right } td.word, th.word { text-align: left }
tbody tr:nth-child(odd) { background: var(--soft) } td.bar { min-width: 10rem; padding: 0; text-align: left }
td.bar b, td.bar i { display: inline-block; height: .8rem; vertical-align: middle; background: var(--bar) }
td.bar i { background: var(--gone) }""",
)
_KEY = (
    "A bar is dark for the clocks that are left, light for those that are saved. "
    "Layers overlap: clocks that two share count for one of them, so one may have more than before where its neighbour has fewer. "
    "Error is that of a layer's outputs on the samples, as a share of their power{}."
)
TUNED = ", before the network was fine-tuned"


def prune_page(found: dict[str, Any]) -> str:
    """The page. found: the figures of a `Pruned` job."""
    parts = [f"<p>{escape(line)}</p>" for line in found["lines"]]
    parts += ["<h2>Layer by layer</h2>", f"<p>{_KEY.format(TUNED if found['epochs'] else '')}</p>"]
    parts += [f'<div class="wide"><table>{_layers(found["layers"])}</table></div>']
    parts += ["<h2>Channels that go together</h2>", f'<div class="wide"><table>{_groups(found["groups"])}</table></div>']
    return page(f"{found['name']}, pruned for {found['config']}", _STYLE, "\n".join(parts))


def _layers(layers: Sequence[dict[str, Any]]) -> str:
    most = max([layer["clocks"] for layer in layers], default=0) or 1
    heads = ("layer", "operator", "inputs", "outputs", "clocks", "", "error")
    rows = [_tr(heads, "th", (0, 1))]
    for layer in layers:
        error = "-" if layer["error"] is None else f"{layer['error']:.2%}"
        kept, gone = layer["clocks_left"] / most, max(layer["clocks"] - layer["clocks_left"], 0) / most
        bar = f'<td class="bar"><b style="width: {kept * 10:.2f}rem"></b><i style="width: {gone * 10:.2f}rem"></i></td>'
        cells = [f'<td class="word">{escape(layer[key])}</td>' for key in ("name", "op")]
        cells += [f"<td>{_change(layer, key)}</td>" for key in ("inputs", "channels", "clocks")] + [bar, f"<td>{error}</td>"]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"<thead>{rows[0]}</thead>\n<tbody>" + "\n".join(rows[1:]) + "</tbody>"


def _change(layer: dict[str, Any], key: str) -> str:
    before, after = layer[key], layer[f"{key}_left"]
    return f"{before:,}" if before == after else f"{before:,} → {after:,}"


def _groups(groups: Sequence[dict[str, Any]]) -> str:
    rows = [_tr((in_line(group["nodes"]), _change(group, "channels"), group["why"] or ""), "td", (0, 2)) for group in groups]
    head = _tr(("made by", "channels", "why they stay"), "th", (0, 2))
    return f"<thead>{head}</thead>\n<tbody>" + "\n".join(rows) + "</tbody>"


def _tr(cells: Sequence[str], kind: str, words: Sequence[int]) -> str:
    marked = [' class="word"' if number in words else "" for number in range(len(cells))]
    inside = "".join(f"<{kind}{mark}>{escape(cell)}</{kind}>" for mark, cell in zip(marked, cells, strict=True))
    return f"<tr>{inside}</tr>"
