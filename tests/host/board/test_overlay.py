"""Overlays on disk: the .bit, its .hwh and the manifest must belong to one build before pynq is asked."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from cnna.cli.main import main
from cnna.host.board.overlay import MANIFEST, check_files, check_remembered, is_virtual
from cnna.spec.errors import DataError, UserError
from cnna.spec.identity import VLNV


@pytest.fixture
def bit(tmp_path: Path) -> Path:
    """A .bit as `cnna board image` writes it."""
    assert main(["board", "image", "--config", "tiny", "-o", str(tmp_path)]) == 0
    return tmp_path / "cnna.bit"


def test_a_whole_build_is_taken(bit: Path) -> None:
    """It must load with its manifest, and without one, as overlays of other projects come."""
    check_files(bit)
    assert json.loads(bit.with_name(MANIFEST).read_text())["config"] == "tiny"
    bit.with_name(MANIFEST).unlink()
    check_files(bit)


@pytest.mark.parametrize("name", ["cnna.bit", "cnna.hwh"])
def test_a_file_of_another_build_is_named(bit: Path, name: str) -> None:
    """If one file is copied without the other, addresses or sizes would silently be wrong."""
    with bit.with_name(name).open("ab") as file:
        file.write(b" ")
    with pytest.raises(DataError, match=f"{name}: not the file that manifest.json names"):
        check_files(bit)


def test_what_is_missing_or_no_manifest_is_named(bit: Path) -> None:
    """pynq's own messages for these name no file."""
    bit.with_name(MANIFEST).write_text("[]")
    with pytest.raises(DataError, match=r"manifest.json: not a manifest"):
        check_files(bit)
    with pytest.raises(UserError, match=r"^\.: is a directory"):
        check_files(Path("."))
    bit.with_suffix(".hwh").unlink()
    with pytest.raises(UserError, match=r"cnna.hwh: no such file"):
        check_files(bit)


def test_a_hwh_that_pynq_has_not_read_is_noticed(bit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A .hwh that is corrected beside the same .bit has no effect: the remedy is to delete a file in pynq's own folder."""
    remembered = SimpleNamespace(__file__="/pynq/pl_server/__init__.py")
    monkeypatch.setitem(sys.modules, "pynq", SimpleNamespace(pl_server=remembered))
    monkeypatch.setitem(sys.modules, "pynq.pl_server", remembered)
    hwh = bit.with_suffix(".hwh")
    module = next(module for module in ElementTree.parse(hwh).iter("MODULE") if module.get("VLNV") == VLNV)
    parameters = {str(entry.get("NAME")): str(entry.get("VALUE")) for entry in module.iterfind("PARAMETERS/PARAMETER")}
    parameters["DATA_WIDTH"] = "32"  # pynq adds the parameters of the register port
    assert parameters["C_PIX"] == "2"
    check_remembered(bit, parameters)
    check_remembered(None, parameters)
    for older in ({**parameters, "C_PIX": "8"}, {**parameters, "C_NEW": "1"}):
        with pytest.raises(DataError, match=r"cnna.hwh: pynq goes by an older one.*remove /pynq/pl_server/_current_metadata.pkl"):
            check_remembered(bit, older)
    hwh.write_text("<no xml")
    with pytest.raises(DataError, match=r"cnna.hwh: not a .hwh file"):
        check_remembered(bit, parameters)


def test_an_image_says_that_it_is_virtual(bit: Path) -> None:
    """The self-test would compare simulated seconds with a clock."""
    assert is_virtual(bit)
    bit.write_bytes(bit.read_bytes().replace(b"Version=virtual", b"Version=2022.1\0"))
    assert not is_virtual(bit)
