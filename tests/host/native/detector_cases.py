"""Drawn detectors: grids over drawn heads, with and without objectness and bins, and integers of which none, some or all pass."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from cnna.host.native.detect import Settings
from cnna.spec.detection.heads import DetectorEntry, GridEntry, Heads, NumberEntry


class Case(NamedTuple):
    """A detector, head tensors, and what counts."""

    heads: Heads
    tensors: list[np.ndarray]
    settings: Settings


def cases(count: int, seed: int) -> Iterator[Case]:
    """So many of them; maps of 1 to some hundred cells, so that rests of tiles and vectors come too."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        heads = _heads(rng)
        low = int(rng.choice([-128, 60, 120]))
        tensors = [rng.integers(low, 128, shape).astype(np.int8) for shape in heads.shapes]
        least = float(rng.choice([0.0, 0.3, 0.7, 0.99, float(heads.tables[0, 200]), 1.0, 1.5]))
        yield Case(
            heads, tensors, Settings(least, float(rng.choice([0.0, 0.5, 1.0])), ("all", "best")[number % 2], 1 + number % 300)
        )


def _heads(rng: np.random.Generator) -> Heads:
    labels, objectness = int(rng.integers(1, 20)), bool(rng.integers(2))
    bins, centre = int(rng.choice([1, 1, 2, 16])), bool(rng.integers(2))
    shapes, grids, first = list[tuple[int, int, int]](), list[GridEntry](), 0
    # two scores' tables: one that rises evenly, and one with steps, so that several integers have one score
    tables = [np.linspace(0, 1, 256), np.sort(rng.integers(0, 9, 256)) / 8]
    tables += [np.sort(rng.normal(0, 5, 256)), np.exp(-np.arange(256) * 0.1)]
    for _ in range(int(rng.integers(1, 4))):
        rows, columns, anchors = int(rng.integers(1, 24)), int(rng.integers(1, 24)), int(rng.integers(1, 4))
        each = labels + objectness + 4 * bins
        for anchor in range(anchors):
            at = anchor * each
            box: list[NumberEntry] = [_number(rng, len(shapes), at + side * bins, bins) for side in range(4)]
            head: Any = [len(shapes), at + 4 * bins + objectness, int(rng.integers(2))]
            there = [len(shapes), at + 4 * bins, int(rng.integers(2))] if objectness else None
            row = [first + anchor * rows * columns, columns, 1]
            grids.append({"size": [rows, columns], "row": row, "classes": head, "objectness": there, "box": box})
        shapes.append((anchors * each, rows, columns))
        first += anchors * rows * columns
    entry: DetectorEntry = {
        "family": "drawn",
        "form": "centre" if centre else "corners",
        "picture": [64, 64],
        "labels": labels,
        "heads": [f"h{number}" for number in range(len(shapes))],
        "tables": [],
        "grids": grids,
    }
    return Heads(entry, tuple(shapes), np.array(tables, np.float32))


def _number(rng: np.random.Generator, head: int, channel: int, bins: int) -> NumberEntry:
    base, down, across, factor = (float(np.float32(value)) for value in rng.normal(0, 4, 4))
    found: Any = {"head": head, "channel": channel, "bins": bins, "table": 2 if bins == 1 else 3}
    found |= {"base": base, "down": down, "across": across, "factor": factor}
    return found
