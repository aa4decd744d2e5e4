"""`cnna board ip`: the files that bitstreams/build.tcl gives to Vivado, and a quick end at Ctrl-C."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cnna.cli import rtl
from cnna.cli.main import main
from cnna.spec.identity import VLNV

from ..waiting import PATIENCE_SECONDS, until

SPIRIT = "{http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009}"


def test_the_component_names_the_verilog_beside_it(tmp_path: Path) -> None:
    """Vivado packages the files that component.xml names; variant `pl` must have ports for streams."""
    assert main(["board", "ip", "--config", "tiny", "--variant", "pl", "-o", str(tmp_path)]) == 0
    component = ElementTree.parse(tmp_path / "component.xml")
    named = {file.findtext(f"{SPIRIT}name") for file in component.iter(f"{SPIRIT}file")}
    assert named == {"cnna_tiny.v"}
    assert {"component.xml", "settings.tcl", *named} <= {path.name for path in tmp_path.iterdir()}
    settings = (tmp_path / "settings.tcl").read_text().splitlines()
    assert settings[:4] == ["set ports 1", "set clock_mhz 300", f"set vlnv {VLNV}", "set part xczu9eg-ffvb1156-2-e"]
    verilog = (tmp_path / "cnna_tiny.v").read_text()
    ports = [port.findtext(f"{SPIRIT}name") for port in component.iter(f"{SPIRIT}port")]
    assert "s_axis_tdata" in ports
    assert all(f" {port}" in verilog for port in ports)


@pytest.mark.parametrize("command", [["board", "ip"], ["rtl"]])
def test_a_folder_that_cannot_be_made_is_named_before_the_work(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line would come after the minutes in which the Verilog is generated."""

    def generated(*_: object) -> None:
        pytest.fail("it has begun to work")

    monkeypatch.setattr(rtl, "generated", generated)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    for place, named, why in (
        ("file", "file", "is a file, not a folder to write into"),
        ("file/ip", "file", "is a file, not a folder to write into"),
        ("link/ip", "link", "is a file, not a folder to write into"),
        ("new/ip", ".", "nothing can be written into this folder; name another one"),
    ):
        assert main([*command, "--config", "tiny", "-o", str(tmp_path / place)]) == 2
        assert capsys.readouterr().err == f"cnna: {tmp_path / named}: {why}\n"


def test_ctrl_c_ends_it_and_leaves_nothing(tmp_path: Path) -> None:
    """A script's make would go on, and half an IP be left; `test_generate` shows that it ends at once."""
    command = [sys.executable, "-m", "cnna.cli.main", "board", "ip", "--config", "zcu102", "-o", str(tmp_path / "ip")]
    command += ["--cache", str(tmp_path / "cache")]  # where no Verilog is kept yet
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        children = Path(f"/proc/{child.pid}/task/{child.pid}/children")
        until(lambda: children.read_text().split(), "it generates nothing")
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=PATIENCE_SECONDS)
    *work, end = said.splitlines()
    assert (child.returncode, end) == (130, "cnna: interrupted")
    assert all(line.startswith("cnna: generating the Verilog of zcu102") for line in work)  # on a slow machine it says so
    assert not (tmp_path / "ip").exists()
