"""The report as one HTML page that needs nothing else: light or dark as the reader's system is."""

from html import escape
from string import Template

from cnna.compiler.report import Figures, cell, columns, headline

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>$title</title>
<style>
:root { color-scheme: light dark; --line: #d0d4da; --bar: #3b76c4; --second: #e08a2c; --soft: #f3f5f8 }
@media (prefers-color-scheme: dark) { :root { --line: #3a4048; --bar: #6ea4ea; --second: #f0a95a; --soft: #1c2026 } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem }
div.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right }
th:first-child, td:first-child, td.word, th.word { text-align: left }
tbody tr:nth-child(odd) { background: var(--soft) }
td.bars { min-width: 12rem }
td.bars span { display: block; height: .5rem; border-radius: 2px; background: var(--bar); margin: 1px 0 }
td.bars span.measured { background: var(--second) }
p.key i { display: inline-block; width: 1rem; height: .6rem; border-radius: 2px; background: var(--bar); margin: 0 .3rem 0 1rem }
p.key i.measured { background: var(--second) }
</style>
</head>
<body>
<h1>$title</h1>
$headline
<p class="key">Bars: clocks of the layer,<i></i>predicted$key</p>
<div class="wide"><table>
<thead><tr>$headings<th class="word">clocks</th></tr></thead>
<tbody>
$rows
</tbody>
</table></div>
</body>
</html>
""")
_WORDS = {"name", "op", "engine", "bound"}


def html(found: Figures) -> str:
    """The page."""
    chosen = columns(found)
    headings = "".join(f"<th{_kind(key)}>{escape(heading)}</th>" for heading, key, _ in chosen)
    most = max((max(layer["predicted_cycles"], layer["cycles"] or 0) for layer in found["layers"]), default=0) or 1
    rows = []
    for layer in found["layers"]:
        cells = "".join(f"<td{_kind(key)}>{escape(cell(layer, key, form))}</td>" for _, key, form in chosen)
        bars = f'<span style="width: {100 * layer["predicted_cycles"] / most:.1f}%"></span>'
        if layer["cycles"] is not None:
            bars += f'<span class="measured" style="width: {100 * layer["cycles"] / most:.1f}%"></span>'
        rows.append(f'<tr>{cells}<td class="bars">{bars}</td></tr>')
    return _PAGE.substitute(
        title=escape(f"{found['name']} on {found['config']}"),
        headline="\n".join(f"<p>{escape(line)}</p>" for line in headline(found)),
        key='<i class="measured"></i>measured' if found["measured"] else "",
        headings=headings,
        rows="\n".join(rows),
    )


def _kind(key: str) -> str:
    return ' class="word"' if key in _WORDS else ""
