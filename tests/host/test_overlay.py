"""Overlays on disk: the .bit, its .hwh and the manifest must be of one build before pynq is asked."""

import json
from pathlib import Path

import pytest

from cnna.host.cli import main
from cnna.host.errors import DataError, UserError
from cnna.host.overlay import MANIFEST, check_files


@pytest.fixture
def bit(tmp_path: Path) -> Path:
    """As `cnna board image` writes it."""
    assert main(["board", "image", "--config", "tiny", "-o", str(tmp_path)]) == 0
    return tmp_path / "cnna.bit"


def test_a_whole_build_is_taken(bit: Path) -> None:
    """With its manifest, and without one, as overlays of other projects come."""
    check_files(bit)
    assert json.loads(bit.with_name(MANIFEST).read_text())["config"] == "tiny"
    bit.with_name(MANIFEST).unlink()
    check_files(bit)


@pytest.mark.parametrize("name", ["cnna.bit", "cnna.hwh"])
def test_a_file_of_another_build_is_named(bit: Path, name: str) -> None:
    """Copied one without the other: addresses or sizes would be wrong without a word."""
    with bit.with_name(name).open("ab") as file:
        file.write(b" ")
    with pytest.raises(DataError, match=f"{name}: not the file that manifest.json names"):
        check_files(bit)


def test_what_is_missing_or_no_manifest_is_named(bit: Path) -> None:
    """pynq's own words for these name no file."""
    bit.with_name(MANIFEST).write_text("[]")
    with pytest.raises(DataError, match=r"manifest.json: not a manifest"):
        check_files(bit)
    bit.with_suffix(".hwh").unlink()
    with pytest.raises(UserError, match=r"cnna.hwh: no such file"):
        check_files(bit)
