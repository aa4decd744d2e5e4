"""docs/verilog.md shows the interfaces that the blocks have."""

import re
from pathlib import Path

import pytest

from cnna.hw.verilog.writer import generate_module
from cnna.spec.config import preset

PAGE = Path(__file__).resolve().parents[3] / "docs" / "verilog.md"
SHOWN = re.findall(r"```verilog\nmodule cnna_(\w+)\(\n(.*?)\n\);", PAGE.read_text(), re.S)


def test_five_blocks_are_shown():
    """The page would say too little, or the next test would compare nothing."""
    assert len(SHOWN) == 5


@pytest.mark.parametrize(("block", "ports"), SHOWN)
def test_a_block_has_the_interface_that_the_page_shows(block, ports):
    """Another project would connect a port that is not there."""
    text = generate_module(preset("tiny"), block)
    body = text[text.index(f"module cnna_{block}(") :]
    declared = re.findall(r"^  ((?:input|output) .*);$", body[: body.index("endmodule")], re.M)
    assert sorted(ports.replace(",", "").replace("  ", "").split("\n")) == sorted(declared)
