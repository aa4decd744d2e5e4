"""The virtual board of variant `pl` as stock pynq sees it: its own self-test, its DMA driver, images of the other variant."""

import sys
from pathlib import Path

import pytest

from cnna.sim.board.board import VirtualBoard
from cnna.spec.ddr import PL_DDR_BASE

from . import stock


@pytest.fixture
def served(pl_board: object, address: str) -> str:
    """The address at which it serves."""
    assert isinstance(pl_board, VirtualBoard)
    return address.rpartition(".")[0] + ".8"


def test_pynqs_own_selftest_passes_in_full(served: str, tmp_path: Path) -> None:
    """The board would lack something that pynq expects, in pynq's own tests."""
    line = [sys.executable, "-W", "ignore", "-m", "pynq.remote.selftest", "--ip", served]
    said = stock.execute(served, [*line, "--bitstream", str(stock.images(tmp_path, variant="pl"))])
    assert "11 passed, 0 failed, 0 skipped" in said


def test_stock_dma_and_the_accelerators_registers_move_bytes(pl_board: object, served: str, tmp_path: Path) -> None:
    """With only the names in the .hwh, any driver must be able to do it."""
    code = f"""
overlay = Overlay(sys.argv[1])
dma, registers = overlay.axi_dma_0, overlay.cnna_0.register_map
out, back = allocate((5000,), np.uint8), allocate((5000,), np.uint8)
out[:] = np.random.default_rng(1).integers(0, 256, 5000, np.uint8)
for way, channel, buffer in (("IN", dma.sendchannel, out), ("OUT", dma.recvchannel, back)):
    for name, value in (("LO", {PL_DDR_BASE + 64 & 0xFFFF_FFFF}), ("HI", {PL_DDR_BASE >> 32}), ("BYTES", 5000), ("START", 1)):
        setattr(registers, f"STREAM_{{way}}_{{name}}", value)
    assert getattr(registers, f"STREAM_{{way}}_STATUS").BUSY
    channel.transfer(buffer)
    channel.wait()
    status = getattr(registers, f"STREAM_{{way}}_STATUS")
    assert (status.BUSY, status.DONE, status.CAUSE) == (0, 1, 0), status
assert dma.recvchannel.transferred == 5000
assert (out == back).all()
print(type(dma).__module__, sorted(overlay.ip_dict))
"""
    said = stock.run(served, code, stock.images(tmp_path, variant="pl"))
    assert said == "pynq.lib.dma ['axi_dma_0', 'cnna_0', 'leds_gpio', 'zynq_ultra_ps_e_0']\n"
    assert isinstance(pl_board, VirtualBoard)
    assert pl_board.backend.data[64:5064].any(), "it went through the PL's DDR4"
    assert not pl_board.dram.used_bytes


def test_the_other_variants_image_is_refused(board: object, pl_board: object, address: str, served: str, tmp_path: Path) -> None:
    """The accelerator would work on memory that it does not reach."""
    code = """
try:
    Overlay(sys.argv[1])
except Exception as error:
    print(error.details())
"""
    for at, mine, other in ((address, "ps", "pl"), (served, "pl", "ps")):
        said = stock.run(at, code, stock.images(tmp_path / other, variant=other))
        assert f"cnna.bin is not this board's image (variant {other}, not {mine}" in said
        assert f"cnna board image --config tiny --variant {mine}" in said


def test_the_other_variants_hwh_is_refused(served: str, tmp_path: Path) -> None:
    """The .bit is right, but its .hwh asks for the wrong driver, with a manifest that says so or without one."""
    bit = stock.images(tmp_path / "pl", variant="pl")
    other = stock.images(tmp_path / "ps")
    bit.with_suffix(".hwh").write_bytes(other.with_suffix(".hwh").read_bytes())
    code = """
import cnna
try:
    cnna.InferenceSession("none.cnna", Overlay(sys.argv[1]))
except cnna.spec.errors.UserError as error:
    print(error)
"""
    assert "cnna.hwh: not the file that manifest.json names" in stock.run(served, code, bit)
    bit.with_name("manifest.json").unlink()
    said = stock.run(served, code, bit)
    assert "the accelerator on the board is not the one in the overlay's .hwh (C_STREAMS 1, not 0)" in said
