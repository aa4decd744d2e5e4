"""What `cnna board image`, `ip` and `firmware` say that they have written."""

from pathlib import Path

import pytest

from cnna.cli.main import main


@pytest.mark.parametrize("part", ["image", "ip", "firmware"])
def test_every_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], part: str) -> None:
    """A user would copy the files that the line names, and the driver or Vivado would miss the others beside them."""
    assert main(["board", part, "--config", "tiny", "-o", str(tmp_path)]) == 0
    named = capsys.readouterr().out.split(": accelerator tiny, variant ps")[0].split(", ")
    assert sorted(named) == sorted(str(file) for file in tmp_path.iterdir())
