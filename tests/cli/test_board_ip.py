"""`cnna board ip`: what bitstreams/build.tcl gives to Vivado, and an end to it at once."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

from cnna.cli.main import main

SPIRIT = "{http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009}"


def test_the_component_names_the_verilog_beside_it(tmp_path: Path) -> None:
    """Vivado packages the files that component.xml names; of variant `pl` with ports for streams."""
    assert main(["board", "ip", "--config", "tiny", "--variant", "pl", "-o", str(tmp_path)]) == 0
    component = ElementTree.parse(tmp_path / "component.xml")
    named = {file.findtext(f"{SPIRIT}name") for file in component.iter(f"{SPIRIT}file")}
    assert named | {"component.xml"} == {path.name for path in tmp_path.iterdir()}
    verilog = (tmp_path / "cnna_tiny.v").read_text()
    ports = [port.findtext(f"{SPIRIT}name") for port in component.iter(f"{SPIRIT}port")]
    assert "s_axis_tdata" in ports
    assert all(f" {port}" in verilog for port in ports)


def test_ctrl_c_ends_it_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    """At `zcu102` Python took a quarter of a minute to let go of what it had made, and a script's make went on."""
    command = [sys.executable, "-m", "cnna.cli.main", "board", "ip", "--config", "zcu102", "-o", str(tmp_path / "ip")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        children = Path(f"/proc/{child.pid}/task/{child.pid}/children")
        until = time.monotonic() + 60
        while not children.read_text().split():  # the generator
            assert time.monotonic() < until, "it generates nothing"
            time.sleep(0.05)
        time.sleep(1.0)
        began = time.monotonic()
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
        took = time.monotonic() - began
    lines = [line for line in said.splitlines() if line != "generating the Verilog of zcu102"]  # said after some seconds
    assert (child.returncode, lines) == (130, ["cnna: interrupted"])
    assert took < 5
    assert not (tmp_path / "ip").exists()
