"""Measured figures that `cnna report` is given but that are of another kind: one line says so."""

import json
from pathlib import Path
from typing import Any

import pytest

from cnna.jobs.measured import read_measured
from cnna.spec.errors import DataError

NO_CLOCKS: tuple[object, ...] = (3, {}, [1], [[1]], [[1, 2, 3]], [[2, 1]], [[1, "2"]])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cycles": "many"}, 'cycles is "many"'),
        ({"cycles": True}, "cycles is true"),
        ({"cycles": -1}, "cycles is -1"),
        ({"batch": [1]}, r"batch is \[1\]"),
        ({"device": None}, "device is null"),
        ({"stalls": {"weights": []}}, "stalls is"),
        ({"layers": {}}, "no list of layers"),
        ({"layers": [1]}, "no list of layers"),
        ({"layers": [{"name": "conv", "cycles": {}}]}, r"layers\[0\].cycles is {}"),
        ({"layers": [{"mac_utilization": float("nan")}]}, r"layers\[0\].mac_utilization is NaN"),
        ({"layers": [{"stalls": 3}]}, r"layers\[0\].stalls is 3"),
        *(({"programs": [{"weight_clocks": bad}]}, "weight_clocks is") for bad in NO_CLOCKS),
    ],
)
def test_measured_figures_of_another_kind_are_one_line(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    """A file that was edited, or belongs to another program, would end in an internal error."""
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"config": "tiny", "device": "rtl", "batch": 1, "cycles": None, "layers": [], **change}))
    with pytest.raises(DataError, match=f"r.json: .*{said}.*`cnna run --json`"):
        read_measured(path)
