"""`detector` of model.yaml: what is refused, and for which versions it stands."""

from pathlib import Path

import onnx
import pytest

from cnna.cli.main import main
from cnna.serve.models.repository import open_repository
from cnna.serve.models.settings import settings_of
from cnna.spec.artifact import save
from cnna.spec.errors import UserError

from ... import detector_models

NAMES = ["disc", "square", "cross", "star: five"]


def read(folder: Path, text: str) -> str:
    """The line that a model.yaml is refused with."""
    (folder / "model.yaml").write_text(text)
    with pytest.raises(UserError) as caught:
        settings_of(folder / "model.yaml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0.4", "detector: '0.4' must be like {least: 0.4, overlap: 0.5, labels: best}"),
        ("{lest: 0.4}", "detector: unknown key 'lest'; there are least, overlap, labels, names"),
        ("{least: 40}", "detector: least=40: must be a number from 0 to 1"),
        ("{least: true}", "detector: least=True: must be a number from 0 to 1"),
        ("{overlap: .nan}", "detector: overlap=nan: must be a number from 0 to 1"),
        ("{labels: one}", "detector: labels='one': must be 'all' or 'best'"),
        ("{names: coco.txt}", "detector: names: holds no names of classes; give a list with a name for each class"),
        ("{names: [a, 3]}", "detector: names: entry 2 has no name"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    """A misspelt threshold would leave a detector with the usual one, or with one that no score has."""
    line = read(tmp_path, f"detector: {text}")
    assert line.startswith(f"{tmp_path / 'model.yaml'}: {said}")


def test_a_version_must_fit(tmp_path: Path) -> None:
    """A classifier would seem to have thresholds, and a detector of four classes names for two of them."""
    save(detector_models.made("yolov5").artifact, tmp_path / "d.cnna")
    onnx.save(detector_models.made("yolov8").model, tmp_path / "q.onnx")
    line = ["--repo", str(tmp_path / "r"), "--config", "tiny", "--batches", "1"]
    (tmp_path / "names").write_text("\n".join(NAMES))
    assert main(["publish", str(tmp_path / "d.cnna"), *line, "--model", "d", "--labels", str(tmp_path / "names")]) == 0
    assert main(["publish", str(tmp_path / "q.onnx"), *line, "--model", "q"]) == 0
    repository = open_repository(tmp_path / "r")
    assert repository.version("d", "1").labels == {"classes": NAMES}
    for model, text, said in (
        ("q", "least: 0.4", "detector: version 1 answers no boxes; publish it with --detector auto, or remove the key"),
        ("d", "names: [a, b]", "detector: names: 2 names, but version 1 has 4 classes"),
    ):
        path = tmp_path / "r" / model / "model.yaml"
        path.write_text(f"detector: {{{text}}}\n")
        with pytest.raises(UserError) as caught:
            repository.version(model, "1")
        assert str(caught.value) == f"{path}: {said}"
    (tmp_path / "r" / "d" / "model.yaml").write_text("detector: {least: 1, names: [a, b, c, d]}\n")
    assert repository.version("d", "1").labels == {"classes": ("a", "b", "c", "d")}
    assert repository.settings("d").wanted.least == 1.0
