"""`make bench`: rows are chosen by pattern, measurements are kept while the program is the same, predictions are marked."""

import json
from pathlib import Path

import bench
import pytest


def test_a_row_is_predicted_marked_and_its_measurement_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prediction that looks measured, or a lost or stale measurement, would make the page a lie."""
    monkeypatch.setattr("sys.argv", ["bench", "--rows", "digits/b1", "--predict", "--config", "tiny", "--docs", str(tmp_path)])
    bench.main()
    page, kept = tmp_path / "performance.md", tmp_path / "performance.json"
    assert "| digits/b1 |" in page.read_text()
    assert "*predicted* |" in page.read_text()
    rows = json.loads(kept.read_text())
    measured = {**rows["digits/b1"]["predicted"], "ddr_read_bytes": 480, "ddr_write_bytes": 0, "date": "a day"}
    for digest, wanted in ((rows["digits/b1"]["digest"], measured), ("another program's", None)):
        kept.write_text(json.dumps({"digits/b1": {**rows["digits/b1"], "digest": digest, "measured": measured}}))
        bench.main()
        assert json.loads(kept.read_text())["digits/b1"]["measured"] == wanted


def test_patterns_choose_rows() -> None:
    """`ROWS=` must not measure for hours what nobody asked for."""
    assert list(bench.chosen(["vgg19/*", "resnet50/b4"], bench.NETWORKS)) == ["resnet50/b4", "vgg19/b1", "vgg19/b4"]
    assert len(list(bench.chosen([], bench.NETWORKS))) == 2 * len(bench.NETWORKS)
