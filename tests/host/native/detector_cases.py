"""Drawn detectors: grids over drawn heads, with scores of every kind, and integers of which none, some or all pass."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from cnna.host.native.detect import Settings
from cnna.spec.detection.heads import AREAS, PEAKS, SOFTMAX, TABLES, DetectorEntry, GridEntry, Heads, NumberEntry

KINDS = (TABLES, TABLES, SOFTMAX, PEAKS, AREAS)  # in turn


class Case(NamedTuple):
    """A detector, head tensors, and what counts."""

    heads: Heads
    tensors: list[np.ndarray]
    settings: Settings


def cases(count: int, seed: int) -> Iterator[Case]:
    """So many of them; maps of 1 to some hundred cells, so that rests of tiles and vectors come too."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        kind = KINDS[number // 2 % len(KINDS)]
        heads = _heads(rng, kind)
        low = int(rng.choice([-128, 60, 120]))
        tensors = [rng.integers(low, 128, shape).astype(np.int8) for shape in heads.shapes]
        if kind == AREAS:
            tensors = [_patches(rng, q) for q in tensors]
        for grid in heads.entry["grids"] if kind == SOFTMAX and rng.integers(2) else ():
            head, channel, _ = grid["classes"]  # cells without an object, as most are
            tensors[head][channel][rng.random(grid["size"]) < rng.choice([0.9, 0.99])] = 127
        least = float(rng.choice([0.0, 0.3, 0.7, 0.99, float(heads.tables[0, 200]), 1.0, 1.5]))
        yield Case(
            heads, tensors, Settings(least, float(rng.choice([0.0, 0.5, 1.0])), ("all", "best")[number % 2], 1 + number % 300)
        )


def laid(rng: np.random.Generator, tensors: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Head tensors as the accelerator lays them: sizes of their words, then of their blocks, and the bytes. Others lie between."""
    sizes, memory = list[tuple[int, int]](), list[np.ndarray]()
    for q in tensors:
        channels, cells = len(q), q[0].size
        word = int(rng.choice([1, 4, 8, 16, 16, 32]))
        blocks, gap = -(-channels // word), int(rng.integers(0, 3)) * word
        made = rng.integers(-128, 128, (blocks, cells * word + gap)).astype(np.int8)
        words = made[:, : cells * word].reshape(blocks, cells, word)
        for channel, plane in enumerate(q.reshape(channels, cells)):
            words[channel // word, :, channel % word] = plane
        sizes.append((word, cells * word + gap))
        memory.append(made)
    return np.array(sizes, np.int64).T.copy(), memory


def _patches(rng: np.random.Generator, q: np.ndarray) -> np.ndarray:
    """A map whose noise passes nowhere, somewhere or half of the time, with patches that pass and touch each other or do not."""
    made = np.where(rng.random(q.shape) < rng.choice([0.0, 0.05, 0.5]), q, -128)
    _, rows, columns = q.shape
    for _ in range(int(rng.integers(0, 9))):
        top, left = int(rng.integers(rows)), int(rng.integers(columns))
        high = 4 if rng.integers(2) else int(rng.integers(1, 12))  # 4: as few rows as count
        made[:, top : top + high, left : left + int(rng.integers(1, 20))] = rng.integers(-60, 128)
    return made.astype(np.int8)


def _heads(rng: np.random.Generator, kind: str) -> Heads:
    labels = 1 if kind == AREAS else int(rng.integers(1, 20))
    objectness = bool(rng.integers(2)) and kind == TABLES
    bins, centre = int(rng.choice([1, 1, 2, 16])), bool(rng.integers(2))
    shapes, grids, first = list[tuple[int, int, int]](), list[GridEntry](), 0
    # two scores' tables: one that rises evenly, and one with steps, so that several integers have one score
    tables = [np.linspace(0, 1, 256), np.sort(rng.integers(0, 9, 256)) / 8]
    tables += [np.sort(rng.normal(0, 5, 256)), np.exp(-np.arange(256) * 0.1)]
    for _ in range(1 if kind == AREAS else int(rng.integers(1, 4))):
        rows, columns = (int(size) for size in rng.integers(1, 60 if kind == AREAS else 24, 2))
        columns *= int(rng.choice([1, 1, 1, 40])) if kind == AREAS else 1
        anchors = 1 if kind == AREAS else int(rng.integers(1, 4))
        each = labels + (kind == SOFTMAX) + objectness + 4 * bins
        for anchor in range(anchors):
            at = anchor * each
            box: list[NumberEntry] = [_number(rng, len(shapes), at + side * bins, bins) for side in range(4)]
            head: Any = [len(shapes), at + 4 * bins + objectness, 3 if kind == SOFTMAX else int(rng.integers(2))]
            if kind == AREAS and rng.integers(2):
                head[1] = 0  # the first of a word, as a map's only channel is
            there = [len(shapes), at + 4 * bins, int(rng.integers(2))] if objectness else None
            row = [first + anchor * rows * columns, columns, 1]
            grids.append({"size": [rows, columns], "row": row, "classes": head, "objectness": there, "box": box})
        shapes.append((anchors * each, rows, columns))
        first += anchors * rows * columns
    entry: DetectorEntry = {
        "family": "drawn",
        "scores": kind,
        "cut": kind != AREAS and bool(rng.integers(2)),
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
