"""Archives that our writer makes are those of `zipfile`, but for how the members that hold weights are compressed."""

import io
import zipfile

import numpy as np
import pytest

from cnna.spec.checks import zip_writer
from cnna.spec.checks.zip_writer import zipped


def of_zipfile(contents):
    """The archive that `zipfile` makes of these members."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in contents.items():
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(info, data)
    return file.getvalue()


@pytest.fixture
def contents():
    """A text, numbers like int8 weights, zeros, and nothing."""
    weights = np.clip(np.random.default_rng(1).normal(0, 30, 200_000), -128, 127).astype(np.int8)
    return {"manifest.json": b'{"a": [1, 2]}' * 50, "model.onnx": weights.tobytes(), "zeros": bytes(9000), "empty": b""}


def test_without_quick_members_every_byte_is_that_of_zipfile(contents):
    """A reader would meet a record that it does not know, or files of equal content would differ."""
    assert zipped(contents, frozenset()) == of_zipfile(contents)


def test_quick_members_come_back_whole_and_are_hardly_larger(contents):
    """Weights would be damaged, or a file be much larger than it was."""
    packed = zipped(contents, frozenset(contents))
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == contents
    weights = {"model.onnx": contents["model.onnx"]}
    assert len(zipped(weights, frozenset(weights))) < 1.01 * len(of_zipfile(weights))


def test_what_does_not_fit_into_four_gibibytes_is_refused(contents, monkeypatch):
    """An archive would be written that nobody can read."""
    monkeypatch.setattr(zip_writer, "MOST_BYTES", (1 << 20) + 100_000)
    with pytest.raises(ValueError, match=r"'model\.onnx' does not fit"):
        zipped(contents, frozenset())
