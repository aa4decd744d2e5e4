"""The detectors of docs/performance.md: pictures a second from picture to boxes with `cnna.Detector`, modelled, and their floors.

The host's work is counted by `make host-cost HOST=boxes` for heads of which no box passes. `CANDIDATES` boxes come on top. In a map
of text as many areas are drawn before.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bench_host import cells, model
from bench_rows import BOXES, DETECTORS, HOST_PATHS, OWN, WHY_BOXES, Row

from cnna.spec.host_time.detector_time import CANDIDATE_LINES, CANDIDATES, candidate_instructions
from cnna.spec.host_time.end_to_end import EndToEnd, rates
from cnna.spec.host_time.host_work import HostWork

Found = Mapping[str, Any]
HEADS = ("row", "fps", "modelled, to boxes", "floor", "on 1 core", "modelled latency, ms", "modelled, by the model's own outputs")
ABOUT = f"""\
`cnna.Detector` decodes boxes on the accelerator's integers ([how](detectors.md)). "fps" is of the accelerator alone. *Modelled* are
pictures a second of a long stream, from a uint8 picture of the input's size to its boxes, the slow and the quick end, with memory
that the processor caches. The host's work was counted; {CANDIDATES} candidates a picture are added to it, each with
{CANDIDATE_LINES} lines that no cache has. DBNet's were counted: {CANDIDATES} areas of 48x6 cells were drawn in its map of 640x640,
as such maps have them for words of 60x18 pixels, which cover a quarter of the picture. The floor is for the slow end with four
cores. The last column is the same for a session of the same file, which gives the network's own outputs: boxes of YOLOv5 and YOLOv8
by tables, rows of YOLOX that are not decoded, and maps of the others.
`make host-cost ROWS=yolov8n/b1 HOST=boxes` counts again, and `HOST=own` the last column.

"""


def rows() -> list[Row]:
    """All rows: at batch 1, and those with a floor for two clocks there too."""
    both = [(Row(name, 1), Row(name, 1, deep=True) if one.deep_floor else None) for name, one in DETECTORS.items()]
    return [row for pair in both for row in pair if row is not None]


def floor_of(row: Row) -> int:
    """The pictures a second that a row must reach at the slow end, on four cores."""
    one = DETECTORS[row.network]
    floor = one.deep_floor if row.deep else one.floor
    assert floor is not None
    return floor


def to_boxes(row: Row, found: Found, counts: Found) -> EndToEnd | None:
    """The model of a row. The host's work does not depend on the array's clock. None: it was not counted."""
    whole = _counted(row, found, counts, BOXES)
    if whole is None:
        return None
    one = DETECTORS[row.network]
    if one.drawn:
        return whole
    lines = CANDIDATES * CANDIDATE_LINES
    work = CANDIDATES * candidate_instructions(one.labels, one.bins)
    more = HostWork(libraries=work, l1_misses=lines, l2_misses=lines, lines=lines)
    return replace(whole, stream=whole.stream.plus(more), single=whole.single.plus(more))


def _counted(row: Row, found: Found, counts: Found, path: str) -> EndToEnd | None:
    """The model of a row by the counts of one path; its host's work is that of the array at one clock. None: it was not counted."""
    paths = counts.get(replace(row, deep=False).key, {})
    return model(row, found, {row.key: {HOST_PATHS[-1]: paths[path]}}) if path in paths else None


def section(kept: Mapping[str, Found], counts: Found) -> list[tuple[str, ...]]:
    """The lines of the table: of rows that have run or are predicted, and whose host's work was counted."""
    return [_cells(row, kept[row.key], counts) for row in rows() if row.key in kept and to_boxes(row, kept[row.key], counts)]


def _cells(row: Row, found: Found, counts: Found) -> tuple[str, ...]:
    whole, best = to_boxes(row, found, counts), found["measured"] or found["predicted"]
    assert whole is not None
    four, one, latency = whole.fps(4), whole.fps(1), whole.latency()
    assert four is not None
    assert one is not None
    assert latency is not None
    own = _counted(row, found, counts, OWN)
    own_fps = own.fps(4) if own else None
    outputs = rates(own_fps) if own_fps else cells(row, found, counts)[0]
    said = (rates(four), str(floor_of(row)), rates(one), rates(latency.scaled(1e3).turned()), outputs)
    return (row.key, f"{best['fps_at_300mhz']:,.0f}", *said)


def missed(kept: Mapping[str, Found], counts: Found) -> list[str]:
    """A line for each row that misses its floor at the slow end, with the cause."""
    found = list[str]()
    for row in rows():
        whole = to_boxes(row, kept[row.key], counts) if row.key in kept else None
        fps = whole.fps() if whole else None
        if fps is not None and fps.slow < floor_of(row):
            why = WHY_BOXES.get(row.key) or "The cause is not named yet."
            found.append(f"- **{row.key}**, to boxes: {fps.slow:,.4g} of {floor_of(row)} at the slow end. {why}")
    return found
