"""The section of a page that says what each piece of a model takes, on the accelerator and on the CPU."""

from collections.abc import Callable, Sequence
from html import escape

from cnna.spec.host_time.piece_times import HEADS, OF_TIMES, PieceTime, piece_cells


def pieces_section(times: Sequence[PieceTime], mark: Callable[[int, str], str]) -> str:
    """HTML. mark: makes the words of the column `where` from the piece's number, from 0, and its side."""
    rows = []
    for number, time in enumerate(times):
        first, side, *numbers = piece_cells(number + 1, time)
        cells = "".join(f'<td class="number">{text}</td>' for text in numbers)
        rows.append(f'<tr><td class="word">{first}</td><td class="word">{mark(number, side)}</td>{cells}</tr>')
    heads = "".join(f'<th class="{"number" if place > 1 else "word"}">{escape(head)}</th>' for place, head in enumerate(HEADS))
    lines = "\n".join(rows)
    return f"""<h2>Pieces</h2>
<p>{OF_TIMES[0].upper()}{OF_TIMES[1:]}.</p>
<div class="wide"><table class="pieces"><thead><tr>{heads}</tr></thead>
<tbody>
{lines}
</tbody></table></div>
"""
