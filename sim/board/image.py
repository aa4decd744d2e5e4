"""The virtual image: a valid `.bit` whose data names a configuration, where a bitstream would hold it.

pynq checks the header, swaps the bytes of every word and sends the rest; `read_image` gets that. Equal input gives equal bytes.
"""

import json
import struct
from collections.abc import Mapping
from typing import Any

from cnna.sim.board.blocks import Design
from cnna.sim.board.design import BOARD, PART
from cnna.spec.config import as_dict
from cnna.spec.identity import VIRTUAL
from cnna.spec.regmap import VERSION

MAGIC = b"CNNA virtual board image\n"
STAMP = ("1980/01/01", "00:00:00")  # of every image, so that it depends on its content alone
_PREAMBLE = bytes.fromhex("0009 0ff0 0ff0 0ff0 0ff0 00 0001")  # with which every .bit begins


def bit(design: Design) -> bytes:
    """The `.bit` file of a design."""
    content = MAGIC + json.dumps(describe(design), sort_keys=True).encode()
    content += bytes(-len(content) % 4)
    texts = (f"{design.name};UserID=0XFFFFFFFF;{VIRTUAL}", PART, *STAMP)
    fields = [struct.pack(">cH", key, len(text) + 1) + text.encode() + b"\0" for key, text in zip(_KEYS, texts, strict=True)]
    return _PREAMBLE + b"".join(fields) + b"e" + struct.pack(">I", len(content)) + swap(content)


def swap(data: bytes) -> bytes:
    """The bytes of every 32-bit word in the opposite order: what lies between a `.bit` and what the FPGA manager takes."""
    words = len(data) // 4
    return struct.pack(f">{words}I", *struct.unpack(f"<{words}I", data))


def describe(design: Design) -> dict[str, Any]:
    """What an image says of itself."""
    return {"board": BOARD, "variant": design.variant, "config": as_dict(design.config), "register_map": list(VERSION)}


def read_image(data: bytes) -> Mapping[str, Any] | None:
    """What the image says of itself, from the bytes that the FPGA manager is given; None: it is no virtual image."""
    if not data.startswith(MAGIC):
        return None
    try:
        content = json.loads(data[len(MAGIC) :].rstrip(b"\0"))
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str | None:
    """Where an image is not the one wanted, as `config.pix 8, not 2`; None where it is."""
    flat = [({**image, **{f"config.{k}": v for k, v in dict(image.get("config", {})).items()}}) for image in (found, wanted)]
    keys = [key for key in flat[1] if key != "config" and flat[0].get(key) != flat[1][key]]
    return ", ".join(f"{key} {flat[0].get(key)}, not {flat[1][key]}" for key in keys) or None


_KEYS = (b"a", b"b", b"c", b"d")  # of a .bit's header: design, part, date, time
