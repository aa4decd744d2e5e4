"""`cnna board firmware`: the device tree overlay compiles, and says what the block design says."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cnna.cli.main import main
from cnna.sim.board import firmware
from cnna.sim.board.blocks import PS
from cnna.sim.board.cells import ACCELERATOR
from cnna.sim.board.design import design
from cnna.spec.boards import BOARDS, FIRST_SPI, PL_PS_IRQ0
from cnna.spec.config import preset
from cnna.spec.regmap import SPACE_BYTES

# The sizes of addresses, and what phandles name, are in the board's own tree, which an overlay does not have.
BASE_TREES = ("reg_format", "avoid_default_addr_size", "interrupts_property", "clocks_property", "resets_property")
CELL_BITS = 32


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """The folder of a KV260."""
    assert main(["board", "firmware", "--config", "kv260", "-o", str(tmp_path)]) == 0
    return tmp_path


def tree(source: Path) -> str:
    """The overlay as dtc reads it again: compiled as the guide says, then taken apart."""
    assert shutil.which("dtc"), "dtc is missing: apt install device-tree-compiler"
    quiet = [f"-Wno-{name}" for name in BASE_TREES]
    blob = source.with_suffix(".dtbo")
    made = subprocess.run(["dtc", "-@", "-O", "dtb", *quiet, "-o", blob, source], capture_output=True, text=True, check=False)
    assert (made.returncode, [line for line in made.stderr.splitlines() if "Failed prerequisite" not in line]) == (0, [])
    return subprocess.run(["dtc", "-q", "-I", "dtb", "-O", "dts", blob], capture_output=True, text=True, check=True).stdout


def cells(text: str, name: str) -> list[int]:
    """The numbers of a property."""
    (found,) = re.findall(rf"\b{name} = <([^>]+)>;", text)
    return [int(word, 0) for word in found.split()]


@pytest.mark.parametrize("board", BOARDS)
def test_the_overlay_says_what_the_design_says(board: str, tmp_path: Path) -> None:
    """Linux would map other registers, wait for another interrupt, or leave clock and widths of the image before."""
    made = design(preset(board))
    (tmp_path / firmware.OVERLAY).write_text(firmware.overlay(made))
    text = tree(tmp_path / firmware.OVERLAY)
    (window,) = (w for w in made.registers() if w.slave_cell == ACCELERATOR)
    high, low, size_high, size_low = cells(text, "reg")
    assert ((high << CELL_BITS) + low, (size_high << CELL_BITS) + size_low) == (window.base, SPACE_BYTES)
    assert f"cnna@{window.base:x} {{" in text
    kind, line, level = cells(text, "interrupts")
    assert (kind, line + FIRST_SPI, level) == (0, PL_PS_IRQ0, 4)
    assert cells(text, "assigned-clock-rates")[0] == pytest.approx(made.config.clock_mhz * 1e6, rel=1e-4)
    widths = cells(text, "config-afi")
    pairs = dict(zip(widths[::2], widths[1::2], strict=True))
    hp_ports = [int(slave[8]) for _, _, cell, slave in made.buses if cell == PS and slave.startswith("S_AXI_HP")]
    assert {register for register in pairs if register < 14} == {4 + 2 * port + half for port in hp_ports for half in (0, 1)}
    assert {pairs[register] for register in pairs if register < 14} == {0}, "0 is 128 bits"
    assert pairs[14] >> 8 & 3 == 2, "2 is 128 bits"
    assert 'firmware-name = "cnna.bit.bin"' in text


def test_the_guide_has_the_same_node(root: Path, written: Path) -> None:
    """A reader of the guide would make a UIO device of other registers, or of another interrupt."""
    guide, node = (root / "docs" / "board.md").read_text(), (written / firmware.OVERLAY).read_text()
    for name in ("reg", "interrupts", "compatible"):
        assert re.findall(rf" {name} = [^;]+;", guide) == [f" {re.findall(rf'{name} = [^;]+;', node)[-1]}"]


def test_the_files_fit_together(written: Path) -> None:
    """xmutil would find no image of the overlay's name, or bootgen no bitstream."""
    shell = json.loads((written / firmware.SHELL).read_text())
    assert shell["shell_type"] == "XRT_FLAT"
    (source,) = re.findall(r"\[destination_device = pl\] (\S+)", (written / firmware.IMAGE).read_text())
    (image,) = re.findall(r'firmware-name = "(\S+)"', tree(written / firmware.OVERLAY))
    assert image == f"{source}.bin"  # as bootgen calls what it makes
    assert {path.name for path in written.iterdir()} >= {firmware.OVERLAY, firmware.SHELL, firmware.IMAGE}
