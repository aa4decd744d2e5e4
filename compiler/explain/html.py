"""An explanation as one self-contained HTML page: the graph with its pieces in colour, then a row for each node."""

from collections.abc import Sequence
from html import escape
from string import Template

from onnx import ModelProto

from cnna.compiler.explain.drawing import drawing, shade
from cnna.compiler.explain.explain import Explanation
from cnna.compiler.explain.rows import CONSTANT, REFUSED, Row
from cnna.compiler.explain.text import HEADS, costs, summary, where, why
from cnna.compiler.report.html import own_script
from cnna.compiler.report.page import Style, page
from cnna.compiler.report.pieces_section import pieces_section
from cnna.spec.counts import many
from cnna.spec.host_time.piece_times import several
from cnna.spec.manifest import ACCELERATOR, CPU

_STYLE = Style(
    "90rem",
    """--wire: #8a949f;
  --here0: #cfe1f7; --here1: #b3d0f0; --here2: #e2edfa; --cpu0: #fbd7a5; --cpu1: #f6c27c; --cpu2: #fde7c8; --refused: #f08a93;
  --cross: #c4561d""",
    """--wire: #77828e; --here0: #24476f; --here1: #2f5c90; --here2: #1b3553; --cpu0: #7a4a12; --cpu1: #98601c; --cpu2: #5a370e;
  --refused: #9c2f3b; --cross: #ee8b50""",
    """th.sorts { cursor: pointer } th[aria-sort=ascending]::after { content: " ▲" }
th[aria-sort=descending]::after { content: " ▼" }
summary { cursor: pointer; margin-top: 2rem } summary h2 { display: inline } p.problem { color: var(--cross); font-weight: 600 }
.graph { overflow: auto; max-height: 85vh; border: 1px solid var(--line); border-radius: 4px }
.graph svg { display: block; margin: 0 auto }
table { font-size: .85rem } table.layers { width: 100% } th, td { text-align: left }
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
$pieces$cpu<h2>Graph</h2>
<p class="key">$key Shades tell neighbouring pieces apart. Thick lines go between the accelerator and the host. Small boxes are
computed as a part of another node. Point at a box to see why it runs there; click it for its row.</p>
<div class="graph">
$graph
</div>
$here
<script>
$script
</script>""")
_NUMBERS = 3  # columns of nodes from this one on hold numbers
_KEY = {ACCELERATOR: "accelerator", CPU: "CPU", REFUSED: "refused"}
MANY = 60  # rows of the accelerator that are shown at once; more of them unfold


def html(found: Explanation, model: ModelProto, name: str, default: bool) -> str:
    """The page. name: what the user calls the model; default: whether the configuration was not chosen."""
    lines = summary(found, name, default)
    problems = len(found.problems)
    kinds = ["problem" if number >= len(lines) - problems else "" for number in range(len(lines))]
    rows = {side: [(number, row) for number, row in enumerate(found.rows) if _group(row) == side] for side in (CPU, ACCELERATOR)}
    body = _BODY.substitute(
        summary="\n".join(f'<p class="{kind}">{escape(line)}</p>' for kind, line in zip(kinds, lines, strict=True)),
        pieces=_pieces(found),
        cpu=_nodes("On the CPU, the slowest first", sorted(rows[CPU], key=lambda entry: -(entry[1].seconds or 0))),
        key=_key(found),
        graph=drawing(found, model),
        here=_nodes("On the accelerator", rows[ACCELERATOR]),
        script=own_script("sort.js"),
    )
    return page(f"{found.name} on {found.config.name}", _STYLE, body)


def _group(row: Row) -> str | None:
    """The table that a row stands in; None for constants, which are counted alone."""
    return {ACCELERATOR: ACCELERATOR, CONSTANT: None}.get(row.side, CPU)


def _key(found: Explanation) -> str:
    """The key to the colours of both sides."""
    sides = [side for side in _KEY if side in found.pieces or any(row.side == side for row in found.rows)]
    return "".join(f'<i class="{side if side == REFUSED else shade(side, 0)}">{_KEY[side]}</i>' for side in sides)


def _pieces(found: Explanation) -> str:
    """The section of pieces; empty if there are not several, or if they cannot be compiled."""
    if not several(found.times):
        return ""
    return pieces_section(found.times, lambda number, kind: f'<i class="{shade(kind, number)}">{kind}</i>')


def _nodes(title: str, rows: Sequence[tuple[int, Row]]) -> str:
    """The section of one side's nodes; empty if it has none. Many of the accelerator's are folded away: there is nothing to do."""
    if not rows:
        return ""
    kinds = [" number" if number >= _NUMBERS else "" for number in range(len(HEADS))]
    heads = "".join(
        f'<th class="sorts{kind}">{head}</th>' for kind, head in zip((*kinds, ""), (*HEADS, "why; what would help"), strict=True)
    )
    lines = "\n".join(_row(number, row) for number, row in rows)
    table = f"""<div class="wide"><table class="layers"><thead><tr>{heads}</tr></thead>
<tbody>
{lines}
</tbody></table></div>
"""
    if _group(rows[0][1]) == CPU or len(rows) <= MANY:
        return f"<h2>{title}</h2>\n{table}"
    return f"<details><summary><h2>{title}: {many(len(rows), 'node')}</h2></summary>\n{table}</details>\n"


def _row(number: int, row: Row) -> str:
    clocks, time = costs(row)
    cells = [
        f'<td><a href="#g{number}">{escape(row.name)}</a></td>',
        f"<td>{escape(row.op)}</td>",
        f'<td data-value="{-1 if row.piece is None else row.piece}"><i class="{shade(row.side, row.piece)}">{where(row)}</i></td>',
        _number(row.macs or None, f"{row.macs:,}" if row.macs else "-"),
        _number(row.clocks, clocks),
        _number(row.seconds, time),
        f'<td class="why">{escape(why(row))}</td>',
    ]
    return f'<tr id="r{number}">{"".join(cells)}</tr>'


def _number(value: float | None, text: str) -> str:
    return f'<td class="number" data-value="{"" if value is None else value}">{text}</td>'
