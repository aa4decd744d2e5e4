"""A detector's own outputs by the native library are those of numpy, to the bit."""

from typing import Any

import numpy as np
import pytest

from cnna.host.native.detect_rows import ModelRows
from cnna.spec.detection.heads import TABLES, Heads, RowsEntry
from cnna.spec.detection.rows import model_rows, outputs_of_rows

from .detector_cases import cases


def drawn() -> list[tuple[Heads, list[np.ndarray], dict[str, list[int]]]]:
    """Detectors of tables whose grids alike have an objectness or none, with rows of every arrangement, and shapes of outputs."""
    rng, found = np.random.default_rng(5), []
    for number, case in enumerate(case for case in cases(100, seed=8) if case.heads.scores == TABLES):
        heads = case.heads
        apart, turned, centred = (bool(number >> bit & 1) for bit in range(3))
        how: RowsEntry = {
            "outputs": ["y", "z"][: 1 + apart],
            "turned": turned,
            "centred": centred,
            "order": [int(place) for place in rng.permutation(4)],
            "scale": [float(np.float32(scale)) for scale in rng.choice([1.0, 64.0, 1 / 3], 4)],
        }
        first = 4 + (heads.entry["grids"][0]["objectness"] is not None)
        numbers = [4, first - 4 + heads.entry["labels"]] if apart else [first + heads.entry["labels"]]
        sizes = [[1, each, heads.boxes] if turned else [1, heads.boxes, each] for each in numbers]
        entry: Any = {**heads.entry, "rows": how}
        found.append((Heads(entry, heads.shapes, heads.tables), case.tensors, dict(zip(how["outputs"], sizes, strict=True))))
    return found


def test_rows_are_numpys() -> None:
    """A board with the library would answer another box or score than the compiler has proved, or write beyond an output."""
    for heads, tensors, shapes in drawn():
        given = {name: q[None] for name, q in zip(heads.entry["heads"], tensors, strict=True)}
        found = ModelRows(heads, shapes).run(given)
        wanted = outputs_of_rows(heads, model_rows(heads, tensors), shapes)
        assert found.keys() == wanted.keys() == shapes.keys()
        for name, y in wanted.items():
            assert found[name].shape == tuple(shapes[name])
            assert found[name].tobytes() == y.tobytes()


def test_numpy_takes_the_librarys_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the library is missing, nothing would be answered."""
    heads, tensors, shapes = drawn()[0]
    rows = ModelRows(heads, shapes)
    given = {name: q[None] for name, q in zip(heads.entry["heads"], tensors, strict=True)}
    found = rows.run(given)
    monkeypatch.setattr(rows, "_calls", None)
    assert all(np.array_equal(rows.run(given)[name], found[name]) for name in shapes)
