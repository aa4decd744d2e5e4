"""An explanation as one self-contained HTML page: the graph with its pieces in colour, then a row for each node."""

from collections.abc import Sequence
from html import escape
from string import Template

from onnx import ModelProto

from cnna.compiler.explain.drawing import drawing, shade
from cnna.compiler.explain.explain import Explanation
from cnna.compiler.explain.rows import Row
from cnna.compiler.explain.text import HEADS, cost, summary, where, why
from cnna.compiler.report.page import Style, page

_STYLE = Style(
    "90rem",
    """--wire: #8a949f;
  --here0: #cfe1f7; --here1: #bfe3de; --here2: #d6d3f3; --cpu0: #fbdcb2; --cpu1: #f6e6a2; --cpu2: #f4cdbd; --refused: #f08a93;
  --cross: #c4561d""",
    """--wire: #77828e; --here0: #24476f; --here1: #1f5650; --here2: #433f74; --cpu0: #70481a; --cpu1: #665a18; --cpu2: #6f3c2b;
  --refused: #9c2f3b; --cross: #ee8b50""",
    """p.problem { color: var(--cross); font-weight: 600 }
.graph { overflow: auto; max-height: 85vh; border: 1px solid var(--line); border-radius: 4px }
.graph svg { display: block; margin: 0 auto }
table { font-size: .85rem; width: 100% } th, td { text-align: left }
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
.refused { fill: var(--refused); background: var(--refused) } .constant { fill: var(--soft); background: var(--soft) }""",
)
_BODY = Template("""$summary
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
</table></div>""")


def html(found: Explanation, model: ModelProto, name: str, default: bool) -> str:
    """The page. name: what the user calls the model; default: whether the configuration was not chosen."""
    lines = summary(found, name, default)
    problems = len(found.problems)
    kinds = ["problem" if number >= len(lines) - problems else "" for number in range(len(lines))]
    numbers = ("MACs", "time")
    heads = [f"<th{' class=number' if head in numbers else ''}>{head}</th>" for head in (*HEADS, "why; what would help")]
    body = _BODY.substitute(
        summary="\n".join(f'<p class="{kind}">{escape(line)}</p>' for kind, line in zip(kinds, lines, strict=True)),
        key=_key(found.pieces),
        graph=drawing(found, model),
        heads="".join(heads),
        rows="\n".join(_row(number, row) for number, row in enumerate(found.rows)),
    )
    return page(f"{found.name} on {found.config.name}", _STYLE, body)


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
