"""The tool that measures `cnna serve`: its model is paced as it says. The rest needs the package index, so no test runs it."""

from pathlib import Path

import pytest
import serving

from cnna.serve.models.repository import open_repository


def test_the_board_is_paced_to_the_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All shares in the table would be of another rate than the page names."""
    monkeypatch.setattr(serving, "FOLDER", tmp_path)
    mhz = serving.made("1")
    version = open_repository(tmp_path / "repository-1").version("m", "1")
    (compiled,) = version.compiled["zcu102"]
    assert compiled.batch / (compiled.clocks / (mhz * 1e6)) == pytest.approx(serving.RATE)
    assert version.golden is not None
    assert version.golden.inputs["x"][0].nbytes == 1024
