"""`cnna compile old.cnna`: the model in an artifact is compiled anew, for what the artifact was compiled."""

import json
from pathlib import Path

import numpy as np
import pytest

from cnna.cli.main import main
from cnna.compiler.zoo.digits import data
from cnna.spec import artifact as files
from cnna.spec.artifact import load

from ..spec.changed_artifact import edit, repack

CONFIG = "tiny,bank_words=2048"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """m.cnna of the digits network, for a configuration of its own and a batch of two."""
    folder = tmp_path_factory.mktemp("again")
    np.save(folder / "calib.npy", data.load().calibration.images[:20])
    for call in (
        ["quantize", data.NETWORK, "--calib", folder / "calib.npy", "-o", folder / "q.onnx"],
        ["compile", folder / "q.onnx", "--config", CONFIG, "--batch", 2, "-o", folder / "m.cnna"],
    ):
        assert main([str(word) for word in call]) == 0
    return folder


def test_an_old_artifact_names_the_command_that_mends_it(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The line asked for a model that its reader may not have, though it lies in the file."""
    path = tmp_path / "old one.cnna"
    path.write_bytes((made / "m.cnna").read_bytes())
    repack(path, edit(isa=[1, 2]))
    assert main(["report", str(path)]) == 2
    command = f"cnna compile '{path}'"
    assert capsys.readouterr().err.strip().endswith(f"rebuild it: {command}")
    assert main(["compile", str(path)]) == 0
    new, first = load(path), load(made / "m.cnna")
    assert (new.config, new.manifest["batch"], new.manifest["name"]) == (first.config, 2, first.manifest["name"])
    assert [piece.program for piece in new.programs] == [piece.program for piece in first.programs]
    assert new.model == first.model


def test_options_override_what_the_artifact_says(made: Path, tmp_path: Path) -> None:
    """Whoever lacks the model could not compile it for another board."""
    new = tmp_path / "new.cnna"
    assert main(["compile", str(made / "m.cnna"), "--config", "tiny", "--batch", "1", "-o", str(new)]) == 0
    assert (load(new).config.bank_words, load(new).manifest["batch"]) == (1024, 1)
    assert load(made / "m.cnna").manifest["batch"] == 2


def no_digest(members: dict[str, bytes]) -> None:
    """Another model than the one that was compiled."""
    members[files.MODEL] += b" "


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (edit(config={"name": "tiny", "nonsense": 1}), "does not say for what it was compiled"),
        (edit(batch="two"), "altered"),
        (no_digest, "altered: model.onnx"),
        (lambda members: members.update({files.MANIFEST: json.dumps([]).encode()}), "does not say for what it was compiled"),
    ],
)
def test_what_cannot_be_compiled_anew_is_left_alone(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: object, said: str
) -> None:
    """A damaged file would be replaced by another model's artifact."""
    path = tmp_path / "m.cnna"
    path.write_bytes((made / "m.cnna").read_bytes())
    repack(path, change)
    before = path.read_bytes()
    assert main(["compile", str(path)]) == 2
    assert said in capsys.readouterr().err
    assert path.read_bytes() == before


@pytest.mark.parametrize(("options", "missing"), [([], "--config C"), (["--config", "tiny"], "-o M.cnna")])
def test_a_model_needs_both(made: Path, capsys: pytest.CaptureFixture[str], options: list[str], missing: str) -> None:
    """A model does not say for what it shall be compiled; it must never be overwritten."""
    assert main(["compile", str(made / "q.onnx"), *options]) == 2
    assert f"give {missing} too" in capsys.readouterr().err
