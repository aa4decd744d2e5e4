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
STAMP = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can hold: equal contents give equal bytes
SAMPLES, SAMPLE_BYTES = 8, 1 << 14  # of a member, which tell whether it is deflated
MOST_DEFLATED = 0.8  # what deflating may leave of a sample
# An archive's own records, without names and data: the last record, and two for each member.
ZIP_BYTES, ZIP_MEMBER_BYTES = 22, 30 + 46
SIZE_FLOOR_BYTES, SIZE_RATIO = 256 << 20, 256  # a file may unpack to the floor plus its own size times the ratio


def pack(path: Path, contents: Mapping[str, bytes]) -> bytes:
    """The bytes of an archive with these members. Equal members give equal bytes.

    ArtifactError: they would be too large to be unpacked, or for an archive without ZIP64 records; the message names `path`.
    """
    file = io.BytesIO()
    try:
        with zipfile.ZipFile(file, "w", allowZip64=False) as archive:
            for name, data in contents.items():
                info = zipfile.ZipInfo(name, STAMP)
                info.compress_type, info.external_attr = _method(data), 0o644 << 16
                archive.writestr(info, data)
    except zipfile.LargeZipFile:
        raise ArtifactError(f"{path}: more than the 2 GiB that a .cnna file holds; compile a smaller model or batch") from None
    _limit(path, sum(map(len, contents.values())), len(file.getvalue()))
    return file.getvalue()


def _method(data: bytes) -> int:
    """How a member is kept: deflated, unless a sample of it shrinks little.

    Weights lose an eighth of their bytes, which does not pay for the seconds that a board takes to unpack them.
    """
    step = max(SAMPLE_BYTES, len(data) // SAMPLES)
    middles = range((step - SAMPLE_BYTES) // 2, len(data), step)  # names at the beginning of a model would count for too much
    sample = b"".join(data[middle : middle + SAMPLE_BYTES] for middle in middles)
    return zipfile.ZIP_DEFLATED if len(zlib.compress(sample)) <= len(sample) * MOST_DEFLATED else zipfile.ZIP_STORED


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
