"""Cuts a list of rows (or columns) into runs that a walk can follow: evenly spaced in the input and in the output.

The nearest Resize by 2 takes rows 0, 0, 1, 1, ...: two runs, each of every input row, which go to every second row of the output.
One row at every place is a single run, which takes no step.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MOST_APART = 64  # alternating runs, at most
COPIES_MAX = 64  # of a tile, one for each run of rows and of columns: each is a command, and has a fixed cost


@dataclass(frozen=True)
class EvenRun:
    """Output rows at, at + apart, ... are copies of input rows first, first + step, ...; `count` rows. A single row has step 1."""

    at: int
    apart: int
    first: int
    step: int
    count: int


def even_runs(rows: Sequence[int]) -> list[EvenRun]:
    """The runs that make `rows`: one that repeats a row; else alternating or consecutive runs with steps, whichever are fewer."""
    if len(rows) > 1 and len(set(rows)) == 1:
        return [EvenRun(0, 1, int(rows[0]), 0, len(rows))]
    alternating = _alternating(rows)
    behind = _behind(rows)
    return alternating if alternating and len(alternating) <= len(behind) else behind


def _alternating(rows: Sequence[int]) -> list[EvenRun] | None:
    """As many runs as the differences of the rows have a period; None: they have no period, or go back."""
    index = np.asarray(rows)
    for apart in range(1, min(len(rows), MOST_APART) + 1):
        steps = index[apart:] - index[:-apart]
        if len(steps) == 0 or ((steps == steps[0]).all() and steps[0] > 0):
            step = int(steps[0]) if len(steps) else 1
            counts = [len(range(at, len(rows), apart)) for at in range(apart)]
            return [EvenRun(at, apart if n > 1 else 1, int(rows[at]), step if n > 1 else 1, n) for at, n in enumerate(counts)]
    return None


def _behind(rows: Sequence[int]) -> list[EvenRun]:
    """Consecutive runs, each as long as possible."""
    found, at = [], 0
    while at < len(rows):
        count, step = 1, rows[at + 1] - rows[at] if at + 1 < len(rows) else 1
        while step > 0 and at + count < len(rows) and rows[at + count] - rows[at + count - 1] == step:
            count += 1
        found.append(EvenRun(at, 1, int(rows[at]), int(step) if count > 1 else 1, count))
        at += count
    return found
