"""Writes zip archives whose large members are compressed quickly. Python's `zipfile` has no word for that.

Weights hardly repeat: what deflate saves of them are short codes for frequent bytes. Looking for repetitions besides single bytes
(`zlib.Z_RLE` does not) takes 2.5 times as long and saves nothing. The format is that of PKWARE's APPNOTE.TXT, without extensions.
"""

import struct
import zlib
from collections.abc import Mapping

LOCAL, CENTRAL, END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"  # the records' signatures
VERSION, UNIX = 20, 3  # that unpacks deflate; the system whose permissions a record has
DEFLATE, RAW_BITS, MEMORY = 8, -15, 8  # the method's number; zlib's arguments for a raw stream of the largest window
DATE = 1 << 5 | 1  # of the first day of 1980, the earliest that a zip can hold: equal contents give equal bytes
READABLE = 0o644 << 16  # external attributes
MOST_BYTES = (1 << 32) - 1  # of an archive and of a member: more would take an extension


def zipped(contents: Mapping[str, bytes], quick: frozenset[str]) -> bytes:
    """The archive of these members, all deflated. quick: the names of those that are taken for weights. Names are ASCII.

    ValueError: a member or the archive has more than MOST_BYTES.
    """
    parts: list[bytes] = []
    records: list[bytes] = []
    place = 0
    for name, data in contents.items():
        packed, known = _deflated(data, name in quick), name.encode("ascii")
        if max(len(data), place + len(packed)) > MOST_BYTES - (1 << 20):
            raise ValueError(f"'{name}' does not fit into an archive of 4 GiB")
        shared = struct.pack("<HHHHHIIIHH", VERSION, 0, DEFLATE, 0, DATE, zlib.crc32(data), len(packed), len(data), len(known), 0)
        records.append(
            CENTRAL + struct.pack("<BB", VERSION, UNIX) + shared + struct.pack("<HHHII", 0, 0, 0, READABLE, place) + known
        )
        parts += [LOCAL + shared + known, packed]
        place += len(parts[-2]) + len(packed)
    whole = b"".join(records)
    end = struct.pack("<HHHHIIH", 0, 0, len(records), len(records), len(whole), place, 0)
    return b"".join([*parts, whole, END, end])


def _deflated(data: bytes, quick: bool) -> bytes:
    packer = zlib.compressobj(
        zlib.Z_DEFAULT_COMPRESSION, zlib.DEFLATED, RAW_BITS, MEMORY, zlib.Z_RLE if quick else zlib.Z_DEFAULT_STRATEGY
    )
    return packer.compress(data) + packer.flush()
