"""An explanation as one self-contained HTML page: the graph with its pieces in colour, then a row for each node."""

from collections.abc import Sequence
from html import escape
from string import Template

from onnx import ModelProto

from cnna.compiler.explain.drawing import drawing, shade
from cnna.compiler.explain.explain import Explanation
from cnna.compiler.explain.rows import Row
from cnna.compiler.explain.text import HEADS, cost, summary, where, why

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>$title</title>
<style>
:root { color-scheme: light dark; --page: #fff; --ink: #1d2329; --dim: #66707c; --line: #d8dde3; --soft: #f3f5f8; --wire: #8a949f;
  --here0: #cfe1f7; --here1: #bfe3de; --here2: #d6d3f3; --cpu0: #fbdcb2; --cpu1: #f6e6a2; --cpu2: #f4cdbd; --refused: #f08a93;
  --cross: #c4561d }
@media (prefers-color-scheme: dark) { :root { --page: #14171b; --ink: #e4e8ec; --dim: #9aa4af; --line: #363d45; --soft: #1d2127;
  --wire: #77828e; --here0: #24476f; --here1: #1f5650; --here2: #433f74; --cpu0: #70481a; --cpu1: #665a18; --cpu2: #6f3c2b;
  --refused: #9c2f3b; --cross: #ee8b50 } }
body { font: 15px/1.5 system-ui, sans-serif; background: var(--page); color: var(--ink); max-width: 90rem; margin: 2rem auto;
  padding: 0 1rem }
h1 { font-size: 1.6rem; margin: 0 0 .2rem } h2 { font-size: 1.1rem; margin: 2.2rem 0 .4rem }
p { margin: .3rem 0; color: var(--dim) } p.problem { color: var(--cross); font-weight: 600 }
.graph { overflow: auto; max-height: 85vh; border: 1px solid var(--line); border-radius: 4px }
.graph svg { display: block; margin: 0 auto }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .85rem; width: 100% }
th { font-weight: 600; color: var(--dim) } th, td { padding: .2rem .6rem; border-bottom: 1px solid var(--line); text-align: left }
td { white-space: nowrap } td.number, th.number { text-align: right } td.why { white-space: normal; min-width: 20rem }
tr:target td, g:target rect { outline: 2px solid var(--cross) } td a { color: inherit }
i { display: inline-block; padding: 0 .5rem; border-radius: 3px; font-style: normal; color: var(--ink) }
.key i { margin-right: .4rem }
svg a { text-decoration: none; cursor: pointer } svg text { fill: var(--ink); font: 11px system-ui, sans-serif }
svg .op { font-size: 12px; font-weight: 600 } svg .piece { text-anchor: end; fill: var(--dim) } svg .chip { text-anchor: middle }
svg rect { stroke: var(--wire); stroke-width: .7 } svg rect.end { fill: var(--soft) }
svg .line { fill: none; stroke: var(--wire); stroke-width: 1.2 } svg .cross { stroke: var(--cross); stroke-width: 2 }
.accelerator.shade0 { fill: var(--here0); background: var(--here0) }
.accelerator.shade1 { fill: var(--here1); background: var(--here1) }
.accelerator.shade2 { fill: var(--here2); background: var(--here2) } .cpu.shade0 { fill: var(--cpu0); background: var(--cpu0) }
.cpu.shade1 { fill: var(--cpu1); background: var(--cpu1) } .cpu.shade2 { fill: var(--cpu2); background: var(--cpu2) }
.refused { fill: var(--refused); background: var(--refused) } .constant { fill: var(--soft); background: var(--soft) }
</style>
</head>
<body>
<h1>$title</h1>
$summary
<h2>Graph</h2>
<p class="key">$key Thick lines go between the accelerator and the host. Small boxes are computed as a
part of another node. Point at a box to see why it runs there; click it for its row.</p>
<div class="graph">
$graph
</div>
<h2>Nodes</h2>
<div class="wide"><table>
<thead><tr>$heads</tr></thead>
<tbody>
$rows
</tbody>
</table></div>
</body>
</html>
""")


def html(found: Explanation, model: ModelProto, name: str, default: bool) -> str:
    """The page. name: what the user calls the model; default: whether the configuration was not chosen."""
    lines = summary(found, name, default)
    problems = len(found.problems)
    kinds = ["problem" if number >= len(lines) - problems else "" for number in range(len(lines))]
    numbers = ("MACs", "time")
    heads = [f"<th{' class=number' if head in numbers else ''}>{head}</th>" for head in (*HEADS, "why; what would help")]
    return _PAGE.substitute(
        title=escape(f"{found.name} on {found.config.name}"),
        summary="\n".join(f'<p class="{kind}">{escape(line)}</p>' for kind, line in zip(kinds, lines, strict=True)),
        key=_key(found.pieces),
        graph=drawing(found, model),
        heads="".join(heads),
        rows="\n".join(_row(number, row) for number, row in enumerate(found.rows)),
    )


def _key(pieces: Sequence[str]) -> str:
    """The key to the colours of the pieces."""
    return "".join(f'<i class="{shade(kind, number)}">{number + 1} {kind}</i>' for number, kind in enumerate(pieces))


def _row(number: int, row: Row) -> str:
    cells = [
        f'<td><a href="#g{number}">{escape(row.name)}</a></td>',
        f"<td>{escape(row.op)}</td>",
        f'<td><i class="{shade(row.side, row.piece)}">{where(row)}</i></td>',
        f'<td class="number">{f"{row.macs:,}" if row.macs else "-"}</td>',
        f'<td class="number">{cost(row)}</td>',
        f'<td class="why">{escape(why(row))}</td>',
    ]
    return f'<tr id="r{number}">{"".join(cells)}</tr>'
