"""What a detector that is decoded on integers is modelled to take."""

import json
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from fitted import pieces_of

from cnna.spec.detection.heads import DetectorEntry, GridEntry, NumberEntry
from cnna.spec.host_time.cortex_a53 import seconds
from cnna.spec.host_time.detector_time import Scan, decode_work, detector_end_to_end, gain, scan_of
from cnna.spec.host_time.end_to_end import by_stage, end_to_end
from cnna.spec.host_time.host_work import HostWork
from cnna.spec.manifest import Port

from ... import detector_models, head_models

NEAR = 0.1
WORD, CELLS = 16, 24 * 24
NUMBER: NumberEntry = {"head": 0, "channel": 0, "bins": 1, "table": 0, "base": 0.0, "down": 0.0, "across": 0.0, "factor": 1.0}


def heads(side: int, channels: int = 85) -> list[Port]:
    """Three head tensors of a square map, in words of 16."""
    found = []
    for number in range(3):
        block, blocks = side * side * WORD, -(-channels // WORD)
        place: Any = {"name": f"h{number}", "tensor": "", "segment": "output", "offset": 0, "scale": 0.1, "zero": 0, "fold": None}
        place |= {"shape": [channels, side, side], "block_bytes": block, "row_bytes": side * WORD, "image_bytes": blocks * block}
        found.append(place)
    return found


def entry_of(ports: list[Port], labels: int, objectness: bool) -> DetectorEntry:
    """A detector with a grid for each head: four numbers of a box, an objectness if there is one, and classes."""
    grids: list[GridEntry] = [
        {
            "size": port["shape"][1:],
            "row": [0, 1, 1],
            "classes": [number, 4 + objectness, 0],
            "objectness": [number, 4, 0] if objectness else None,
            "box": [NUMBER] * 4,
        }
        for number, port in enumerate(ports)
    ]
    names = [port["name"] for port in ports]
    return {
        "family": "drawn",
        "form": "centre",
        "picture": [64, 64],
        "labels": labels,
        "heads": names,
        "tables": [],
        "grids": grids,
    }


def test_the_decode_takes_the_tails_place() -> None:
    """The line would promise what the tail's time alone makes, or count the tail and the decode."""
    artifact = detector_models.made("yolov8").artifact
    entry, pieces = artifact.manifest["detector"], artifact.manifest["pieces"]
    run = (artifact.predicted_clocks(), artifact.config.clock_mhz, 1)
    whole, found = end_to_end(pieces, *run), detector_end_to_end(entry, pieces, *run)
    before, after, bare = whole.fps(), found.fps(), end_to_end(pieces[:-1], *run).fps()
    assert before is not None
    assert after is not None
    assert bare is not None
    assert before.slow < after.slow < bare.slow
    assert gain(entry, pieces, *run) == f"{before.slow:.3g} -> {after.slow:,.0f} pictures a second from picture to answer"


def test_a_decode_that_the_model_leaves_to_its_user_is_not_compared() -> None:
    """The line would say that boxes make a detector slower, beside the time of maps that nobody has decoded."""
    artifact = head_models.made("centernet").artifact
    run = (artifact.predicted_clocks(), artifact.config.clock_mhz, 1)
    said = gain(artifact.manifest["detector"], artifact.manifest["pieces"], *run)
    assert "->" not in said
    assert said.endswith("pictures a second from picture to answer")


def test_more_scores_take_more_work() -> None:
    """Objectness spares the scan of classes; a detector without it reads them all."""
    ports = heads(24)
    with_objectness, without = entry_of(ports, 80, True), entry_of(ports, 80, False)
    assert scan_of(with_objectness, ports) == Scan(3 * CELLS, 3 * CELLS * WORD, 0, 3, 0), "one word of each cell"
    assert scan_of(without, ports) == Scan(3 * CELLS * 6, 3 * CELLS * WORD * 6, 0, 3, 0), "the words that have the classes"
    for cached in (True, False):
        more, less = (decode_work(entry, ports, cached, 0) for entry in (without, with_objectness))
        assert more.loops > 4 * less.loops > 0
        assert (more.lines if cached else more.buffer_read) > 2 * (less.lines if cached else less.buffer_read)


def test_what_is_not_scanned_in_place_is_unpacked() -> None:
    """A softmax, rows with gaps, and short words that are compared would be modelled as if their words were read where they lie."""
    ports = heads(24)
    plain = entry_of(ports, 80, False)
    softmax: DetectorEntry = {**plain, "scores": "softmax"}
    short: list[Any] = [{**port, "block_bytes": port["block_bytes"] // 4, "row_bytes": port["row_bytes"] // 4} for port in ports]
    gaps: list[Any] = [{**port, "row_bytes": port["row_bytes"] + WORD} for port in ports]
    for entry, given in ((softmax, ports), (plain, short), (plain, gaps)):
        assert scan_of(entry, given) == Scan(0, 0, 3 * CELLS * 80, 0, sum(port["image_bytes"] for port in given))
    assert scan_of(entry_of(ports, 80, True), short).words == 3 * CELLS


@pytest.mark.parametrize(("key", "channels", "first", "anchors"), [("yolov5n/b1", 255, 4, 3), ("yolov8n/b1", 144, 64, 0)])
def test_the_estimate_is_near_the_counted_rows(root: Path, key: str, channels: int, first: int, anchors: int) -> None:
    """`cnna explain` would promise a fifth of the pictures that the host manages, as it did while it modelled dense planes."""
    counts = json.loads((root / "docs" / "host_cost.json").read_text())[key]
    sides, ports = (80, 40, 20), []
    for side in sides:
        ports += heads(side, channels)[:1]
    ports = [{**port, "name": f"h{number}"} for number, port in enumerate(ports)]
    grids: list[GridEntry] = [
        {
            "size": [side, side],
            "row": [0, side, 1],
            "classes": [number, first + bool(anchors) + 85 * anchor, 0],
            "objectness": [number, first + 85 * anchor, 0] if anchors else None,
            "box": [],
        }
        for number, side in enumerate(sides)
        for anchor in range(anchors or 1)
    ]
    entry: DetectorEntry = {**entry_of(ports, 80, bool(anchors)), "grids": [{**grid, "box": [NUMBER] * 4} for grid in grids]}
    before = pieces_of("yolov8n/b1", counts)
    program: Any = {**before[0], "outputs": ports}
    found = detector_end_to_end(entry, [program], 0, 300, 1, cached=True, candidates=0)
    for mode, work in (("stream", found.stream), ("single", found.single)):
        whole = reduce(HostWork.plus, (HostWork(**stage) for stage in counts["boxes"][mode].values()))
        assert work.lines == pytest.approx(whole.lines, rel=NEAR)
        assert work.native == pytest.approx(whole.native, rel=NEAR)
        assert work.instructions == pytest.approx(whole.instructions, rel=NEAR)
        for have, want in ((seconds(work).quick, seconds(whole).quick), (seconds(work).slow, seconds(whole).slow)):
            assert have == pytest.approx(want, rel=NEAR), mode


def test_stages_are_the_latency() -> None:
    """A user would add up the stages of a batch and get another time than the line above, or miss where the time goes."""
    artifact = detector_models.made("yolov8").artifact
    entry, pieces = artifact.manifest["detector"], artifact.manifest["pieces"]
    run = (artifact.predicted_clocks(), artifact.config.clock_mhz, 1)
    whole, boxes = end_to_end(pieces, *run), detector_end_to_end(entry, pieces, *run)
    for found, names in ((whole, ["packing", "accelerator", "host", "CPU"]), (boxes, ["packing", "accelerator", "host", "decode"])):
        for cores in (1, 4):
            stages, latency = found.stages(cores), found.latency(cores)
            assert stages is not None
            assert latency is not None
            assert list(stages) == names
            assert sum(part.slow for part in stages.values()) == pytest.approx(latency.slow)
            assert stages["accelerator"].slow == whole.accelerator_seconds
    said = by_stage(boxes.figures())
    assert said is not None
    assert [part.split()[0] for part in said.split(", ")] == names
    in_python = end_to_end(pieces, *run, native=False).stages()
    assert in_python is not None
    assert "packing" not in in_python
