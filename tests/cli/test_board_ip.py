"""`cnna board ip`: the files that bitstreams/build.tcl gives to Vivado, and a quick end at Ctrl-C."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cnna.cli.main import main
from cnna.hw.verilog import writer
from cnna.sim.rtl import generate
from cnna.sim.rtl.build import to_stderr
from cnna.sim.rtl.cache import default_cache
from cnna.sim.rtl.sources import generated
from cnna.spec.config import Config
from cnna.spec.identity import VLNV

from ..waiting import PATIENCE_SECONDS, until

SPIRIT = "{http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009}"


def kept(config: Config) -> str:
    """The accelerator's Verilog, which the user's cache folder keeps."""
    return generated(config, default_cache(), to_stderr)


def written(config: Config, folder: Path, module: str | None, tick: Callable[[], None]) -> list[Path]:
    """What `generate.write` writes in another process, as `test_generate` shows."""
    tick()
    return writer.write(config, folder, module)


def test_the_component_names_the_verilog_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vivado packages the files that component.xml names; variant `pl` must have ports for streams."""
    monkeypatch.setattr(writer, "generate", kept)
    monkeypatch.setattr(generate, "write", written)
    assert main(["board", "ip", "--config", "tiny", "--variant", "pl", "-o", str(tmp_path)]) == 0
    component = ElementTree.parse(tmp_path / "component.xml")
    named = {file.findtext(f"{SPIRIT}name") for file in component.iter(f"{SPIRIT}file")}
    assert named | {"component.xml", "settings.tcl"} == {path.name for path in tmp_path.iterdir()}
    assert (tmp_path / "settings.tcl").read_text() == f"set ports 1\nset clock_mhz 300\nset vlnv {VLNV}\n"
    verilog = (tmp_path / "cnna_tiny.v").read_text()
    ports = [port.findtext(f"{SPIRIT}name") for port in component.iter(f"{SPIRIT}port")]
    assert "s_axis_tdata" in ports
    assert all(f" {port}" in verilog for port in ports)


def test_ctrl_c_ends_it_and_leaves_nothing(tmp_path: Path) -> None:
    """A script's make would go on, and half an IP be left; `test_generate` shows that it ends at once."""
    command = [sys.executable, "-m", "cnna.cli.main", "board", "ip", "--config", "zcu102", "-o", str(tmp_path / "ip")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        children = Path(f"/proc/{child.pid}/task/{child.pid}/children")
        until(lambda: children.read_text().split(), "it generates nothing")
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=PATIENCE_SECONDS)
    lines = [line for line in said.splitlines() if line != "generating the Verilog of zcu102"]  # this line comes after some seconds
    assert (child.returncode, lines) == (130, ["cnna: interrupted"])
    assert not (tmp_path / "ip").exists()
