"""A manifest's detector is checked before anything is read by it: files come from anywhere."""

import copy
from typing import Any

import pytest

from cnna.spec.detection.heads import Heads, heads_of
from cnna.spec.errors import ArtifactError

from ... import detector_models

DAMAGE: dict[str, tuple[str, Any]] = {
    "a channel beyond the head": ("classes", [0, 1 << 20, 0]),
    "a head that is not there": ("classes", [99, 0, 0]),
    "a table that is not there": ("classes", [0, 64, 99]),
    "rows beyond the output": ("row", [300, 16, 1]),
    "rows twice": ("row", [256, 0, 0]),
    "another size": ("size", [8, 16]),
    "no box": ("box", []),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_what_points_beyond_is_refused(what: str) -> None:
    """Native code would read beyond its arrays."""
    found = detector_models.made("yolov8").found
    assert isinstance(found, Heads)
    entry = copy.deepcopy(found.entry)
    key, value = DAMAGE[what]
    entry["grids"][0][key] = value  # type: ignore[literal-required]
    with pytest.raises(ArtifactError, match="the manifest's detector has"):
        heads_of(entry, found.shapes, "m")


@pytest.mark.parametrize("text", ["AAAA", "?", ""])
def test_damaged_tables_are_refused(text: str) -> None:
    """A table of other than 256 numbers would be read beyond its end."""
    found = detector_models.made("yolov8").found
    assert isinstance(found, Heads)
    with pytest.raises(ArtifactError, match="damaged table"):
        heads_of({**found.entry, "tables": [text, *found.entry["tables"][1:]]}, found.shapes, "m")
