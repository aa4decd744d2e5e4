"""Pictures as files: decoded as the model's own tools do it, and refused before they take memory."""

import io
import struct
import sys
import zlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from cnna.host.samples import pictures
from cnna.host.selftest.selftest_network import path_of
from cnna.serve.engine.core import Core
from cnna.serve.engine.served import READY, Served, ServedModel
from cnna.serve.lifecycle.versions import ModelLife, VersionLife
from cnna.serve.models.repository import open_repository
from cnna.serve.protocol.photographs import decoded
from cnna.spec.errors import DataError, RunError
from cnna.spec.samples.preprocess import from_entry

Within = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture
def core() -> Core:
    """What `decoded` asks of an engine, for the self-test's network."""
    version = open_repository(path_of("tiny")).version("tiny", "1")
    served, life = Served("tiny", "1", version), VersionLife(READY)
    model = ServedModel("tiny", life=ModelLife({"1": life}, "1"), versions={"1": served})
    model.becomes(model.life)
    return cast(Core, SimpleNamespace(catalogue=SimpleNamespace(model=lambda name: model)))


def file_of(pixels: NDArray[np.uint8], kind: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def array(*files: bytes) -> NDArray[Any]:
    found = np.empty(len(files), object)
    found[:] = files
    return found


def test_files_become_what_cnna_run_makes_of_them(core: Core, within: Within, tmp_path: Path, seed: int) -> None:
    """A served model would see other pixels than the one whose accuracy was measured."""
    rng = np.random.default_rng(seed)
    files = [file_of(rng.integers(0, 256, (40 + 9 * n, 50, 3), np.uint8), kind) for n, kind in enumerate(("PNG", "JPEG"))]
    paths = [tmp_path / "0.png", tmp_path / "1.jpg"]
    for path, file in zip(paths, files, strict=True):
        path.write_bytes(file)

    async def run() -> None:
        found = (await decoded(core, "tiny", None, {"picture": array(*files)})).inputs
        signature = core.catalogue.model("tiny").versions["1"].version
        assert signature is not None
        assert signature.signature.manifest is not None
        entry = signature.signature.manifest["preprocess"]
        assert entry is not None
        how = from_entry(entry, "", strict=False)
        assert np.array_equal(found["picture"], pictures.as_input(pictures.read(paths, [3, 32, 32], how), how))
        assert signature.signature.request(found)[0] == 2

    within(run())


def test_files_of_16_bits_and_of_the_models_size(core: Core, within: Within) -> None:
    """A server would clip the numbers of 16 bits, or magnify what has the right size, without a word in its log."""
    grey = np.arange(1024, dtype=np.uint16).reshape(32, 32) // 4
    deep = io.BytesIO()
    Image.fromarray(grey * 257).save(deep, "PNG")

    async def run() -> None:
        files = array(deep.getvalue(), file_of(grey.astype(np.uint8), "PNG"))
        found = (await decoded(core, "tiny", None, {"picture": files})).inputs
        colours = np.repeat(grey[None].astype(np.uint8), 3, 0)
        assert np.array_equal(found["picture"], np.stack([colours, colours]))

    within(run())
    version = core.catalogue.model("tiny").versions["1"].version
    assert version is not None
    said = "those of 32 x 32 stay as they are; of others the shorter side is scaled to 256/224 of what is cut out, the middle"
    assert version.signature.prepared().startswith(said)


def huge(side: int) -> bytes:
    """The head of a PNG that says it has so many rows and columns."""
    head = b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head)) + b"\0\0\0\0IDAT" + bytes(4)


@pytest.mark.parametrize(
    ("name", "file", "said"),
    [
        ("picture", b"", "picture 0: neither JPEG nor PNG"),
        ("picture", b"GIF89a" + bytes(40), "neither JPEG nor PNG"),
        ("picture", huge(10_000), "more than 25,000,000 pixels"),  # Pillow would warn, in a line that is no JSON
        ("picture", huge(100_000), "more than 25,000,000 pixels"),
        ("picture", file_of(np.zeros((40, 40, 3), np.uint8), "PNG")[:60], "picture 0"),
        ("image", file_of(np.zeros((40, 40, 3), np.uint8), "PNG"), "takes no pictures"),
    ],
)
def test_what_is_no_picture(core: Core, within: Within, name: str, file: bytes, said: str) -> None:
    """A few bytes would make the server take gigabytes."""

    async def run() -> None:
        with pytest.raises(DataError, match=said):
            await decoded(core, "tiny", None, {name: array(file)})
        with pytest.raises(DataError, match=r"n within 1\.\.64"):
            await decoded(core, "tiny", None, {name: array(*[file] * 65)})

    within(run())


def test_a_server_without_pillow_says_so(core: Core, within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client would be told of a fault that is none, and an operator not what to install."""
    file = file_of(np.zeros((40, 40, 3), np.uint8), "PNG")
    monkeypatch.setitem(sys.modules, "PIL", None)

    async def run() -> None:
        with pytest.raises(RunError, match="pip install pillow there, or send uint8 pictures"):
            await decoded(core, "tiny", None, {"picture": array(file)})

    within(run())
