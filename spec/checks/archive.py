"""The zip archive of a `.cnna` file: packs and unpacks its members. Nothing may be in a file besides its members.

`artifact` knows what the members mean.
"""

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from cnna.spec.errors import ArtifactError

MODEL = "model.onnx"
BEGINNING = b"PK\x03\x04"  # of a zip archive
MANIFEST, DIGEST = "manifest.json", "manifest.sha256"
STAMP = (0, 1 << 5 | 1)  # midnight, 1 January 1980, the earliest time that a zip can hold: equal contents give equal bytes
VERSION, MAKER, FILE_MODE = 20, b"\x14\x03", 0o644  # of the format of deflated members; the same and Unix; readable
SAMPLES, SAMPLE_BYTES = 8, 1 << 14  # by which a member is deflated one way or the other
# An archive's own records, without names and data: the last record, and two for each member.
ZIP_BYTES, ZIP_MEMBER_BYTES = 22, 30 + 46
SIZE_FLOOR_BYTES, SIZE_RATIO = 256 << 20, 256  # a file may unpack to the floor plus its own size times the ratio


def pack(path: Path, contents: Mapping[str, bytes]) -> bytes:
    """The bytes of an archive with these members. Equal members give equal bytes.

    ArtifactError: they would be too large to be unpacked, or for a zip archive; the message names `path`.
    """
    parts, directory, at = list[bytes](), list[bytes](), 0
    try:
        for name, data in contents.items():
            packed, called = _deflated(data), name.encode("ascii")
            sizes = zlib.crc32(data), len(packed), len(data), len(called), 0
            record = struct.pack("<5H3L2H", VERSION, 0, zipfile.ZIP_DEFLATED, *STAMP, *sizes)
            where = struct.pack("<3H2L", 0, 0, 0, FILE_MODE << 16, at)
            directory.append(b"".join((b"PK\x01\x02", MAKER, record, where, called)))
            parts += [BEGINNING, record, called, packed]
            at += len(BEGINNING) + len(record) + len(called) + len(packed)
        last = 0, 0, len(contents), len(contents), sum(map(len, directory)), at, 0
        file = b"".join([*parts, *directory, b"PK\x05\x06", struct.pack("<4H2LH", *last)])
    except struct.error:
        raise ArtifactError(f"{path}: more than the 4 GiB that a zip archive holds; compile a smaller model or batch") from None
    _limit(path, sum(map(len, contents.values())), len(file))
    return file


def _deflated(data: bytes) -> bytes:
    """The data deflated by the better of two strategies, as samples tell.

    Weights hardly repeat. A search for what does takes two thirds of the time, and its file is larger than one of runs alone.
    """
    step = max(SAMPLE_BYTES, len(data) // SAMPLES)
    middles = range((step - SAMPLE_BYTES) // 2, len(data), step)  # names at the beginning of a model would count for too much
    sample = b"".join(data[middle : middle + SAMPLE_BYTES] for middle in middles)
    strategies = zlib.Z_DEFAULT_STRATEGY, zlib.Z_RLE
    return _by(data, min(strategies, key=lambda strategy: len(_by(sample, strategy))))


def _by(data: bytes, strategy: int) -> bytes:
    deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS, strategy=strategy)  # without a header of its own, as zip archives want it
    return deflate.compress(data) + deflate.flush()


def is_archive(path: Path) -> bool:
    """Whether a file begins as a `.cnna` file does. No ONNX model does."""
    try:
        with path.open("rb") as file:
            return file.read(len(BEGINNING)) == BEGINNING
    except (OSError, ValueError):  # the latter of a name with a NUL
        return False


def unpack(path: Path, data: bytes | None = None) -> dict[str, bytes]:
    """The members of a file by name; `data`: its content, which is read otherwise.

    ArtifactError: the file cannot be read, or is not a whole archive of a `.cnna` file.
    """
    try:
        with path.open("rb") if data is None else io.BytesIO(data) as file:
            if file.read(2) != b"PK":
                raise ArtifactError(f"{path}: not a .cnna file (no zip archive); `cnna compile` makes one")
            size = file.seek(0, io.SEEK_END)
            with zipfile.ZipFile(file) as archive:
                return _members(path, archive, size)
    except FileNotFoundError:
        raise ArtifactError(f"{path}: no such file; `cnna compile` makes one") from None
    except IsADirectoryError:
        raise ArtifactError(f"{path}: a folder, not a .cnna file; name the .cnna file in it") from None
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error.strerror or error}") from error
    # zipfile raises NotImplementedError for a compression that it lacks, and RuntimeError for a member with a password
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error, ValueError) as error:
        raise ArtifactError(f"{path}: truncated or damaged ({' '.join(str(error).split())}); compile it again") from error


def _members(path: Path, archive: zipfile.ZipFile, file_bytes: int) -> dict[str, bytes]:
    """Every member by name. All sizes are checked before anything is unpacked."""
    infos = archive.infolist()
    names = [info.filename for info in infos]
    missing = sorted({MANIFEST, DIGEST, MODEL} - set(names))
    if MANIFEST not in names:
        raise ArtifactError(f"{path}: not a .cnna file (a zip archive without {MANIFEST}); `cnna compile` makes one")
    if missing or len(names) != len(set(names)):
        found = f"lacks {missing[0]}" if missing else "holds a member twice"
        raise ArtifactError(f"{path}: altered: the archive {found}; compile it again")
    besides = file_bytes - ZIP_BYTES - sum(ZIP_MEMBER_BYTES + 2 * len(info.filename) + info.compress_size for info in infos)
    if besides:
        raise ArtifactError(f"{path}: altered: it has {besides} bytes besides its members; compile it again")
    _limit(path, sum(info.file_size for info in infos), file_bytes)
    return {info.filename: archive.read(info) for info in infos}


def _limit(path: Path, unpacked_bytes: int, file_bytes: int) -> None:
    most = SIZE_FLOOR_BYTES + SIZE_RATIO * file_bytes
    if unpacked_bytes > most:
        raise ArtifactError(f"{path}: unpacks to {unpacked_bytes} bytes, more than the {most} that a file of {file_bytes} may")
