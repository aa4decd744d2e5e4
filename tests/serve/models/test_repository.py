"""Repositories: what is found in them, and what is refused with a line that names the file."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cnna.host.selftest.selftest_network import path_of, pictures
from cnna.serve.models import golden
from cnna.serve.models.repository import open_repository
from cnna.spec.errors import ArtifactError, DataError, UnknownError, UserError


def test_a_version_has_its_batches_and_what_clients_see(repository: Path) -> None:
    """Batch and configuration are invisible to clients: shapes begin with -1, and a batch is the engine's choice."""
    found = open_repository(repository)
    assert found.models() == ["digits"]
    assert found.versions("digits") == ["1"]
    version = found.version("digits", "1")
    assert [one.batch for one in version.compiled["tiny"]] == [1, 4, 8]
    assert [tensor.served_shape for tensor in (*version.signature.inputs, *version.signature.outputs)] == [
        [-1, 1, 16, 16],
        [-1, 10],
    ]
    assert all(one.seconds == pytest.approx(one.clocks / 300e6, rel=0.1) for one in version.compiled["tiny"])
    assert version.golden is not None
    assert version.golden.samples == 4


def test_one_file_is_a_repository(repository: Path) -> None:
    """The first answer in one command needs no folders."""
    found = open_repository(repository / "digits" / "1" / "tiny-b4.cnna")
    assert found.models() == ["tiny-b4"]
    assert found.version("tiny-b4", "1").golden is None
    assert found.settings("tiny-b4").queue > 0
    with pytest.raises(UnknownError, match="there is no model 'digits'; there are tiny-b4"):
        found.settings("digits")


@pytest.mark.parametrize("name", ["..", "../digits", "digits/1", "", ".hidden", "/etc", "digits\0"])
def test_no_name_leads_out_of_the_repository(repository: Path, name: str) -> None:
    """A client's load call would read any folder of the server."""
    with pytest.raises(UnknownError):
        open_repository(repository).versions(name)
    with pytest.raises(UnknownError):
        open_repository(repository).version("digits", name)


@pytest.mark.parametrize("what", ["other", "digits/2", "digits/1/tiny-b8.cnna", "digits/model.yaml"])
def test_no_link_leads_out_of_the_repository(repository: Path, tmp_path: Path, what: str) -> None:
    """Whoever may write a link here would have any file of the server read, and its first line shown as the reason."""
    outside, link = tmp_path / "outside", repository / what
    outside.mkdir()
    if link.is_file():
        link.unlink()
    link.symlink_to(outside)
    found = open_repository(repository)
    with pytest.raises(UserError, match=f"{link}: leads to {outside}, out of the repository"):
        found.version("other" if what == "other" else "digits", "2" if what == "digits/2" else "1")
    if what == "other":
        assert not found.has_pipeline("other")
        with pytest.raises(UserError, match="out of the repository"):
            found.versions("other")


def test_a_file_that_was_altered_is_refused(repository: Path) -> None:
    """A version whose bits changed on the way here would answer wrongly."""
    path = repository / "digits" / "1" / "tiny-b4.cnna"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArtifactError, match=r"tiny-b4\.cnna"):
        open_repository(repository).version("digits", "1")


def test_files_of_a_version_must_agree(repository: Path) -> None:
    """One batch would be answered by another model than the next."""
    folder = repository / "digits" / "1"
    shutil.copy(path_of("tiny"), folder / "tiny-b2.cnna")
    with pytest.raises(ArtifactError, match="takes or gives other tensors than"):
        open_repository(repository).version("digits", "1")
    (folder / "tiny-b2.cnna").unlink()
    shutil.copy(folder / "tiny-b4.cnna", folder / "tiny-b2.cnna")
    with pytest.raises(ArtifactError, match=r"must be called tiny-b4\.cnna"):
        open_repository(repository).version("digits", "1")


def test_golden_answers_must_fit(repository: Path, images: NDArray[np.float32]) -> None:
    """A test that compares nothing would let every version pass."""
    folder = repository / "digits" / "1"
    golden.write(folder / "golden.npz", {"image": images[:2]}, {"logits": np.zeros((3, 10), np.float32)})
    with pytest.raises(UserError, match=r"golden.npz: must have output\.logits, float32 \[2, 10\]"):
        open_repository(repository).version("digits", "1")
    (folder / "golden.npz").write_bytes(b"nonsense")
    with pytest.raises(UserError, match=r"golden.npz: no archive of golden answers"):
        open_repository(repository).version("digits", "1")


def test_golden_answers_of_the_accelerator_are_compared_bit_by_bit(repository: Path) -> None:
    """One flipped bit is what a broken board shows; a tolerance would hide it."""
    version = open_repository(repository).version("digits", "1")
    assert version.golden is not None
    outputs = version.signature.outputs
    wanted = version.golden.outputs
    assert golden.difference(outputs, wanted, wanted) is None
    other = wanted["logits"].copy()
    other[2, 3] = np.nextafter(other[2, 3], np.float32(1e9))
    said = golden.difference(outputs, {"logits": other}, wanted)
    assert said is not None
    assert said.startswith("output logits, element [2, 3]")


def test_requests_are_checked_before_they_wait() -> None:
    """A bad request would fail the batch that it shares with others."""
    repository = open_repository(path_of("tiny"))
    signature = repository.version("tiny", "1").signature
    assert signature.pictures
    shown = pictures()[:2]
    count, arrays = signature.request({"picture": shown})
    assert (count, arrays["picture"].dtype) == (2, np.uint8)
    floats = np.zeros((3, 3, 32, 32), np.float64)
    assert signature.request({"picture": floats})[1]["picture"].dtype == np.float32
    wrong: list[tuple[dict[str, NDArray[np.generic]], str]] = [
        ({"image": floats}, "has inputs picture; missing: picture; unknown: image"),
        ({}, "has inputs picture; missing: picture"),
        ({"picture": floats[:, :2]}, "the model wants"),
        ({"picture": floats[:0]}, "N at least 1"),
        ({"picture": np.array(1.0)}, "no axis for the samples"),
        ({"picture": np.full((1, 3, 32, 32), np.nan)}, "has NaN"),
        ({"picture": np.zeros((1, 3, 32, 32), np.int64)}, "is int64"),
    ]
    for given, said in wrong:
        with pytest.raises(DataError, match=said):
            signature.request(given)


def test_the_names_of_a_folder_are_models(tmp_path: Path) -> None:
    """A hidden folder is a publication that is under way."""
    for name in ("a", "b.2", ".new", "c d"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    assert open_repository(tmp_path).models() == ["a", "b.2"]
    with pytest.raises(UserError, match="no such folder or file"):
        open_repository(tmp_path / "none")
    (tmp_path / "a" / "1").mkdir()
    with pytest.raises(ArtifactError, match=r"holds no \.cnna"):
        open_repository(tmp_path).version("a", "1")


def test_outputs_have_their_samples_on_axis_0() -> None:
    """An output with several rows a sample, or none that the batch runs along, must still have its samples on axis 0."""
    from cnna.serve.models.signature import Tensor, rows_of

    singles = [np.arange(6).reshape(3, 2), np.arange(6, 12).reshape(3, 2)]
    joined, stacked = Tensor("y", "int64", (2,), 3), Tensor("y", "int64", (3, 2))
    assert rows_of([joined], {"y": singles})["y"].shape == (6, 2)
    assert rows_of([stacked], {"y": singles})["y"].shape == (2, 3, 2)


@pytest.mark.parametrize(
    ("files", "model", "said"),
    [
        (["digits/1/"], None, None),
        (["1/tiny-b1.cnna"], "1", "R/1: no versions; it is a version itself; give the folder above R"),
        (["1/model.onnx"], "1", "R/1: no versions; it is a version itself; give the folder above R"),
        (["digits/tiny-b1.cnna"], "digits", "R/digits: no versions; tiny-b1.cnna belongs into a folder of it, such as R/digits/1"),
        (
            ["digits/v1/"],
            "digits",
            "R/digits: no versions; v1 is no version, since versions are integers from 1 on; cnna publish makes one",
        ),
        (["digits/"], "digits", "R/digits: no versions; cnna publish makes one"),
        ([], None, "no model in R: cnna publish adds one"),
        ([".git/config", "README"], None, "no model in R: cnna publish adds one"),
        (["tiny-b1.cnna"], None, "no model in R: tiny-b1.cnna lies in it itself; give a folder of models, or the file"),
        (["model.onnx"], None, "no model in R: model.onnx lies in it itself; give a folder of models"),
        (["my net/1/", "digits/1/"], None, "R/my net: ignored; a model's name has letters, digits, `_`, `.` and `-` alone"),
    ],
)
def test_a_folder_of_another_depth_is_named(tmp_path: Path, files: list[str], model: str | None, said: str | None) -> None:
    """The server would look as if it served, and nothing say which folder is at the wrong place."""
    root = tmp_path / "R"
    root.mkdir()
    for file in files:
        (root / file).mkdir(parents=True) if file.endswith("/") else (root / file).parent.mkdir(parents=True, exist_ok=True)
        if not file.endswith("/"):
            (root / file).write_bytes(b"")
    found = open_repository(root)
    lines = found.ignored() if model is None else [found.why_no_versions(model)]
    lines = [line.replace(str(root), "R") for line in lines]
    assert [line.startswith(said) for line in lines] == [True] if said is not None else lines == []


def test_the_folder_of_a_version_is_no_repository(repository: Path) -> None:
    """Two levels too deep, "give a folder of models" would not say which."""
    (line,) = open_repository(repository / "digits" / "1").ignored()
    assert "give the folder that has the model's folder, or the file" in line
