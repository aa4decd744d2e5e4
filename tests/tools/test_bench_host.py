"""The modelled columns of docs/performance.md: counts before estimates, and the DPU beside the slow end alone."""

import json

import pytest
from bench_host import HEADS, ahead, cells, estimated, model
from bench_rows import Row

from cnna.spec.host_time.cortex_a53 import seconds
from cnna.spec.host_time.host_model import LAUNCH_SECONDS
from cnna.spec.host_time.host_work import HostWork

from ..host.hand_made import requantised_copy

ROW = Row("resnet50", 1)
WORK = HostWork(loop_clocks=12e6)  # 10 ms at the quick end
HOST = {"stream": WORK.counts(), "single": WORK.counts(), "cpu_seconds": 0.0}
FOUND = {"predicted": {"fps_at_300mhz": 250.0}, "measured": None, "pieces": [1, 0], "host": HOST}


def test_counts_go_before_estimates():
    """A counted row that showed its estimate would say nothing of the host that there is."""
    assert model(ROW, FOUND, {}).fps().quick == pytest.approx(1 / seconds(WORK).quick)
    half = WORK.scaled(0.5).counts()
    kept = {ROW.key: {"numpy": {"stream": {"pack": half, "cpu": half}, "single": {"pack": half}}}}
    assert model(ROW, FOUND, kept).fps(1).quick == pytest.approx(1 / seconds(WORK).quick)
    native = {ROW.key: kept[ROW.key] | {"native": {"stream": {"pack": WORK.scaled(0.1).counts()}, "single": {}}}}
    launch = LAUNCH_SECONDS.quick
    assert model(ROW, FOUND, native).fps().quick == pytest.approx(1 / (1 / 250 + launch), rel=1e-9)  # the accelerator decides


def test_a_batch_has_the_work_of_its_pictures():
    """A batch beside a counted picture would be shown ten times as slow, by the estimate for Python."""
    kept = {ROW.key: {"native": {"stream": {"pack": WORK.scaled(0.1).counts()}, "single": {}}}}
    four = model(Row("resnet50", 4), FOUND, kept)
    assert four.stream == WORK.scaled(0.4)
    own = kept | {"resnet50/b4": {"native": {"stream": {"pack": WORK.scaled(0.05).counts()}, "single": {}}}}
    assert model(Row("resnet50", 4), FOUND, own).stream == WORK.scaled(0.2)


def test_every_column_has_a_cell():
    """A row without any knowledge of its host must not shift the table."""
    assert len(cells(ROW, FOUND, {})) == len(HEADS)
    assert cells(ROW, {**FOUND, "host": None}, {}) == ("-", "-", "-")
    assert all(" to " in cell for cell in cells(ROW, FOUND, {}))


def test_ahead_is_said_of_the_slow_end():
    """The quick end of a model against a measurement would be boasting."""
    slow, quick = model(ROW, FOUND, {}).fps().slow, model(ROW, FOUND, {}).fps().quick
    between = {"resnet50": (slow + quick) / 2}
    assert ahead({ROW: FOUND}, {}, between) == "No row's slow end is ahead of the DPU."
    said = ahead({ROW: FOUND}, {}, {"resnet50": slow - 1})
    assert said == "In these rows even the slow end of the model is ahead of what was measured of the DPU: resnet50/b1."


def test_the_page_is_written_from_what_is_kept(root):
    """A page that was edited by hand, or forgotten, would show other figures than the two files."""
    from bench_page import page

    kept, counts = (json.loads((root / "docs" / name).read_text()) for name in ("performance.json", "host_cost.json"))
    assert page(kept, counts) == (root / "docs" / "performance.md").read_text()


def test_estimates_are_of_python_alone():
    """The page says so of rows without counts; a native estimate would leave out that four threads share its packing."""
    kept = estimated(requantised_copy())
    assert HostWork(**kept["stream"]).native == HostWork(**kept["single"]).native == 0
