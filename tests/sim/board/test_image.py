"""The virtual image: what pynq makes of it, and how images are told apart."""

from itertools import product

import pytest

from cnna.sim.board import image
from cnna.sim.board.design import VARIANTS, design
from cnna.spec.boards import board_of
from cnna.spec.config import preset


@pytest.mark.filterwarnings("ignore")  # pynq's own warnings
@pytest.mark.parametrize(("config", "variant"), [*product(["tiny", "zcu102"], VARIANTS), ("kv260", "ps")])
def test_pynq_takes_the_header_and_hands_on_the_content(config: str, variant: str) -> None:
    """pynq would refuse the file, or the board what arrives."""
    from pynq.pl_server.embedded_device import bit2bin, parse_bit_header

    made = design(preset(config), variant)
    data = image.bit(made)
    header = parse_bit_header(data)
    assert (header["part"], header["design"]) == (board_of(made.config).part, made.name)
    found = image.read_image(bit2bin(data))
    assert found == image.describe(made)
    assert image.bit(made) == data


def test_another_image_is_told_apart() -> None:
    """A client would work with an accelerator of other sizes than its overlay says."""
    tiny, large = (image.describe(design(preset(name))) for name in ("tiny", "zcu102"))
    assert image.difference(tiny, tiny) is None
    assert "config.pix 2, not 8" in str(image.difference(tiny, large))
    assert image.difference({}, tiny)
    pl = image.describe(design(preset("tiny"), "pl"))
    assert image.difference(pl, tiny) == "variant pl, not ps, config.streams 1, not 0"


@pytest.mark.parametrize("data", [b"", b"\xff" * 64, image.MAGIC, image.MAGIC + b"{", image.MAGIC + b"[1]\0"])
def test_what_is_no_image_is_none(data: bytes) -> None:
    """A real bitstream would be taken for a virtual one, or end the server."""
    assert image.read_image(data) is None
