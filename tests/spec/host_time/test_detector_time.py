"""What a detector that is decoded on integers is modelled to take."""

import pytest

from cnna.spec.detection.heads import DetectorEntry, GridEntry
from cnna.spec.host_time.detector_time import decode_instructions, detector_end_to_end, gain
from cnna.spec.host_time.end_to_end import by_stage, end_to_end

from ... import detector_models, head_models


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
    entry = detector_models.made("yolov8").artifact.manifest["detector"]
    more: DetectorEntry = {**entry, "labels": 80}
    assert decode_instructions(more) > 1.2 * decode_instructions(entry)
    anchors = detector_models.made("yolov5").artifact.manifest["detector"]
    grids: list[GridEntry] = [{**grid, "objectness": None} for grid in anchors["grids"]]
    without: DetectorEntry = {**anchors, "grids": grids}
    assert decode_instructions(without) > decode_instructions(anchors)


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
