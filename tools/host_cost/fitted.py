"""Fits the constants of `spec/host_time/native_work.py` to the counts that are kept, and prints them for `host_model.py`.

    PYTHONPATH=tools .venv/bin/python tools/host_cost/fitted.py [DOCS]

Run it when rows are counted anew and `tests/spec/host_time/test_native_work.py` fails.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from cnna.spec.host_time.native_work import across
from cnna.spec.manifest import ACCELERATOR, CPU

ROOT = Path(__file__).resolve().parent.parent.parent
Counts = Mapping[str, Any]


def _folded(shape: Sequence[int], folded: Sequence[int], span: Sequence[int]) -> dict[str, Any]:
    words = -(-folded[0] // 16) * 16 * prod(folded[1:])
    return {"shape": list(shape), "image_bytes": words, "fold": {"shape": list(folded), "span": list(span)}}


def _map(*shape: int) -> dict[str, Any]:
    """An output of few channels, in words of 16 bytes."""
    return {"shape": list(shape), "image_bytes": -(-shape[0] // 16) * 16 * shape[1] * shape[2]}


PICTURE, SCORES = (3, 224, 224), _map(1000, 1, 1)
INPUTS = {  # by the bytes that are packed
    port["image_bytes"]: port
    for port in (
        _folded(PICTURE, (48, 56, 56), (4, 4)),
        _folded(PICTURE, (12, 112, 112), (2, 2)),
        _folded(PICTURE, (24, 112, 113), (2, 4)),
        _folded(PICTURE, (42, 112, 112), (2, 7)),
        _folded(PICTURE, (9, 224, 224), (1, 3)),
        _folded((3, 256, 256), (9, 256, 256), (1, 3)),
        _folded((1, 360, 640), (9, 360, 640), (3, 3)),
        _folded((3, 640, 640), (12, 320, 320), (2, 2)),
        _folded((3, 416, 416), (9, 416, 416), (1, 3)),
    )
}
OUTPUTS = {  # of rows that are no classifiers
    "unet/b1": [_map(1, 256, 256)],
    "espcn/b1": [_map(1, 1080, 1920)],
    "dbnet/b1": [_map(1, 640, 640)],
    "yolov5n/b1": [_map(255, side, side) for side in (80, 40, 20)],
    "yolov8n/b1": [_map(144, side, side) for side in (80, 40, 20)],
    "yolox_tiny/b1": [_map(channels, side, side) for side in (80, 40, 20) for channels in (4, 1, 80)],
    "yolov3/b1": [_map(255, side, side) for side in (52, 26, 13)],
}
SOFTMAX = 10_000  # instructions of the library besides packing, from which on a classifier has one
LEAST = 1e-9  # of a determinant: rows that say the same decide nothing
PARTS = ("loops", "loop_clocks", "libraries", "l1_misses", "streamed")


def pieces_of(key: str, paths: Counts) -> list[Any]:
    """A counted row's pieces, as far as the estimate reads them: how they were compiled follows from what was counted."""
    stages = paths["native"]["stream"]
    size = stages["pack"]["buffer_written"]
    found: list[Any] = [{"kind": ACCELERATOR, "inputs": [INPUTS[size]], "outputs": OUTPUTS.get(key, [SCORES])}]
    soft = key not in OUTPUTS and stages.get("python", {}).get("native", 0) > SOFTMAX
    if soft or "cpu" in stages:
        found.append({"kind": CPU, "seconds": 1e-4, "operators": [{"op": "Softmax" if soft else "Resize"}]})
    return found


def main(arguments: Sequence[str]) -> None:
    """Prints the constants."""
    docs = Path(arguments[0]) if arguments else ROOT / "docs"
    kept = json.loads((docs / "host_cost.json").read_text())
    rows = [(key, paths) for key, paths in kept.items() if paths.get("native", {}).get("stream", {}).get("pack", {}).get("native")]
    rows = [(key, paths) for key, paths in rows if "cpu" not in paths["native"]["stream"] and "cached" in paths]
    ports = [pieces_of(key, paths)[0]["inputs"][0] for key, paths in rows]
    packs = [paths["native"]["stream"]["pack"] for _, paths in rows]
    for line in (*_packing(ports, packs), *_lines(rows), *_batches([paths for key, paths in rows if key not in OUTPUTS])):
        print(line)


def fit(sides: Sequence[Any], counted: Any) -> tuple[Any, float]:
    """How often each side goes into what was counted, and the greatest relative error, which is the least that can be.

    sides: [k][rows], none of which goes in less than 0 times.
    """
    rows = np.unique((np.array(sides) / counted).T.round(9), axis=0)
    best, least = np.zeros(len(sides)), 1.0
    for count in range(1, len(sides) + 1):
        for used in combinations(range(len(sides)), count):
            shares = _alike(rows[:, used])
            found = np.zeros((len(shares), len(sides)))
            found[:, used] = shares
            for one, worst in zip(found, np.abs(found @ rows.T - 1).max(axis=1), strict=True):
                if worst < least and (one >= 0).all():
                    best, least = one, float(worst)
    return best, least


def _alike(rows: Any) -> Any:
    """Shares with which one row more than there are sides err alike, for any such rows: those of the best fit are among them."""
    sides = rows.shape[1]
    if len(rows) <= sides:
        return np.linalg.lstsq(rows, np.ones(len(rows)), rcond=None)[0][None]
    places = np.array(list(combinations(range(len(rows)), sides + 1)))
    signs = np.array(list(product((1.0, -1.0), repeat=sides + 1)))
    squares = np.concatenate([np.repeat(rows[places], len(signs), axis=0), np.tile(signs, (len(places), 1))[..., None]], axis=2)
    squares = squares[np.abs(np.linalg.det(squares)) > LEAST]
    return np.linalg.solve(squares, np.ones((len(squares), sides + 1, 1)))[:, :-1, 0]


def _packing(ports: Sequence[Any], packs: Sequence[Counts]) -> Iterator[str]:
    """Shares of an element, a unit and one that takes another row; of a row and its units. Their greatest errors are least."""
    units = np.array([port["image_bytes"] / 16 for port in ports])
    elements = np.array([prod(port["shape"]) for port in ports], float)
    more = np.array([across(port) for port in ports], float)
    rows, words = np.array([port["shape"][1] for port in ports], float), units / [port["fold"]["shape"][2] for port in ports]
    for name in PARTS:
        counted = np.array([pack[name] for pack in packs], float)
        pairs = {"libraries": ("NATIVE_ROW and NATIVE_WORDS", [rows, words]), "l1_misses": ("NATIVE_ELEMENT", [elements])}
        heads, sides = pairs.get(name, ("NATIVE_ELEMENT, NATIVE_UNIT and NATIVE_ACROSS", [elements, units, more]))
        sides = sides[:1] if name == "streamed" else sides
        shares, error = fit(sides, counted)
        yield f"{heads}: {name} {', '.join(f'{share:.4g}' for share in shares)}; at most {error:.1%} beside a row"


def _lines(rows: Sequence[tuple[str, Counts]]) -> Iterator[str]:
    """What a line that is cleaned, or invalidated, adds: the middle of the rows."""
    for head, stage, some in (
        ("NATIVE_CLEAN", "pack", rows),
        ("NATIVE_INVALIDATE", "python", [r for r in rows if r[0] in OUTPUTS]),
    ):
        both = [tuple(paths[path]["stream"][stage] for path in ("native", "cached")) for _, paths in some]
        for name in PARTS[:4]:
            more = [(new.get(name, 0) - old.get(name, 0)) / (new.get("lines", 0) + new.get("absent", 0)) for old, new in both]
            yield f"{head}: {name} {np.median(more):.4g}"


def _batches(rows: Sequence[Counts]) -> Iterator[str]:
    """Python and the loop around a picture: the middle of the classifiers."""
    stages = [[paths["native"][mode]["python"] for mode in ("stream", "single")] for paths in rows]
    plain = [pair for pair in stages if pair[0]["native"] < SOFTMAX]
    soft = [pair[0] for pair in stages if pair[0]["native"] > SOFTMAX]
    native = np.median([stream["native"] for stream, _ in plain])
    for name in ("interpreter", "libraries", "native", "l1_misses", "l2_misses"):
        stream = np.median([pair[0].get(name, 0) for pair in plain])
        more = np.median([pair[1].get(name, 0) - pair[0].get(name, 0) for pair in plain])
        yield f"NATIVE_BATCH: {name} {stream:,.0f}; NATIVE_ALONE: {more:,.0f}"
    loops, clocks = (np.median([stream.get(name, 0) for stream in soft]) / SCORES["shape"][0] for name in ("loops", "loop_clocks"))
    whole = (np.median([stream["native"] for stream in soft]) - native) / SCORES["shape"][0]
    yield f"NATIVE_SOFTMAX: libraries {whole - loops:.4g}, loops {loops:.4g}, loop_clocks {clocks:.4g}, native {whole:.4g}"


if __name__ == "__main__":
    main(sys.argv[1:])
