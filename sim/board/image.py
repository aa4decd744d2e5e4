"""The virtual image: a valid `.bit` that names a configuration instead of holding a bitstream.

pynq checks the header, swaps the bytes of every word and sends the data; `read_image` reads them. Equal input gives equal bytes.
"""

import json
import struct
from collections.abc import Mapping
from typing import Any

from cnna.sim.board.blocks import Design
from cnna.spec.boards import board_of
from cnna.spec.config import as_dict
from cnna.spec.identity import VIRTUAL
from cnna.spec.regmap import VERSION

MAGIC = b"CNNA virtual board image\n"
STAMP = ("1980/01/01", "00:00:00")  # the same in every image, so that images with equal content are equal
_PREAMBLE = bytes.fromhex("0009 0ff0 0ff0 0ff0 0ff0 00 0001")  # every .bit begins with it


def bit(design: Design) -> bytes:
    """The `.bit` file of a design."""
    content = MAGIC + json.dumps(describe(design), sort_keys=True).encode()
    content += bytes(-len(content) % 4)
    texts = (f"{design.name};UserID=0XFFFFFFFF;{VIRTUAL}", board_of(design.config).part, *STAMP)
    fields = [struct.pack(">cH", key, len(text) + 1) + text.encode() + b"\0" for key, text in zip(_KEYS, texts, strict=True)]
    return _PREAMBLE + b"".join(fields) + b"e" + struct.pack(">I", len(content)) + swap(content)


def swap(data: bytes) -> bytes:
    """Reverses the bytes of every 32-bit word, as pynq does between a `.bit` and the FPGA manager."""
    words = len(data) // 4
    return struct.pack(f">{words}I", *struct.unpack(f"<{words}I", data))


def describe(design: Design) -> dict[str, Any]:
    """The description of a design that its image holds."""
    board = board_of(design.config).name
    return {
        "board": board,
        "variant": design.variant,
        "config": as_dict(design.config),
        "register_map": [*VERSION],
    }


def read_image(data: bytes) -> Mapping[str, Any] | None:
    """The description in the bytes that the FPGA manager gets; None if it is not a virtual image."""
    if not data.startswith(MAGIC):
        return None
    try:
        content = json.loads(data[len(MAGIC) :].rstrip(b"\0"))
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str | None:
    """The first difference from the wanted image, such as `config.pix 8, not 2`; None if there is none."""
    flat = [({**image, **{f"config.{k}": v for k, v in dict(image.get("config", {})).items()}}) for image in (found, wanted)]
    keys = [key for key in flat[1] if key != "config" and flat[0].get(key) != flat[1][key]]
    return ", ".join(f"{key} {flat[0].get(key)}, not {flat[1][key]}" for key in keys) or None


_KEYS = (b"a", b"b", b"c", b"d")  # keys of a .bit's header fields: design, part, date, time
