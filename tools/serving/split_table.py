"""The table of docs/cluster.md on measured cuts."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MARK = re.compile(r"(<!-- cuts: written by `make split-link` -->\n).*?(<!-- end of cuts -->)", re.DOTALL)
COLUMNS = (
    "network",
    "edge",
    "cuts",
    "Mbit/s",
    "chosen",
    "predicted, ms",
    "measured, ms",
    "best of all",
    "measured, ms",
    "chosen over best",
)
LIMIT = 0.1


def write_page(page: Path, results: Sequence[Path]) -> None:
    """Puts the table between its marks."""
    text = page.read_text()
    if not MARK.search(text):
        raise ValueError(f"{page}: has no place for the table")
    table = table_of([json.loads(path.read_text()) for path in results])
    page.write_text(MARK.sub(lambda found: f"{found[1]}{table}\n{found[2]}", text))


def table_of(results: Sequence[dict[str, Any]]) -> str:
    """A row for each network and speed, and what they come to."""
    rows, over = [], []
    for each in results:
        for row in each["links"]:
            chosen, best = (row["cuts"][row[name]] for name in ("chosen", "best"))
            predicted = sum(chosen[f"{part}_seconds"] for part in ("edge", "pack", "link", "cloud"))
            cells = [
                each["network"],
                each["config"],
                each["cuts"],
                f"{row['mbit']:g}",
                f"`{row['chosen']}`",
                f"{predicted * 1e3:.2f}",
            ]
            cells += [f"{chosen['measured_seconds'] * 1e3:.1f}", f"`{row['best']}`", f"{best['measured_seconds'] * 1e3:.1f}"]
            rows.append(" | ".join(map(str, [*cells, f"{row['over']:.1%}"])))
            over.append(row["over"])
    good = sum(one <= LIMIT for one in over)
    said = (
        f"{len(results)} networks, {len(over)} cases. The chosen cut was within 10 % of the best measured one in {good} of them;\n"
    )
    said += f"the worst was {max(over):.1%} over it."
    head = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    return "\n".join([said, "", *head, *(f"| {row} |" for row in rows)])
