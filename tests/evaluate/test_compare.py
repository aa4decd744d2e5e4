"""Two evaluations from their JSON: pairs of models, errors with and without the same samples, and files that are none."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnna.cli.main import main
from cnna.evaluate.compare import compared, html, side
from cnna.evaluate.evaluate import evaluate
from cnna.spec.errors import DataError

from . import made
from .test_evaluate import scores_and_classes


def figures(folder: Path, *models: Path, seed: int = 0, **options: Any) -> dict[str, Any]:
    """The JSON of an evaluation, as it is read again."""
    data = made.arrays(folder / f"d{seed}.npz", **scores_and_classes(seed))
    text = json.dumps(evaluate(models, data, cache=folder / "c", **options).figures())
    found: dict[str, Any] = json.loads(text)
    return found


def test_the_same_samples_are_compared_one_by_one(tmp_path: Path) -> None:
    """The error of a difference of pairs is smaller than that of two independent accuracies."""
    echo, negated = made.echo(tmp_path / "a.onnx", 7), made.negated(tmp_path / "b.onnx", 7)
    found = compared(side(figures(tmp_path, echo), "A"), side(figures(tmp_path, negated), "B"))
    given = scores_and_classes()
    first, second = (given["x"].argmax(1) == given["y"]), ((-given["x"]).argmax(1) == given["y"])
    (model,) = found["models"]
    change = second.astype(float) - first
    assert found["same_samples"]
    assert model["metrics"]["top1"]["difference"]["value"] == pytest.approx(change.mean())
    assert model["metrics"]["top1"]["difference"]["standard_error"] == pytest.approx(change.std() / np.sqrt(40))
    assert (model["better"], model["worse"]) == ((change > 0).sum(), (change < 0).sum())
    assert len(model["changed"]) == 40, "no sample has the same class in both"
    assert [one["change"] for one in model["changed"]] == sorted(change)
    assert html(found).count("<tr><td>sample ") == 40


def test_other_samples_have_the_error_of_both(tmp_path: Path) -> None:
    """Two sets differ by chance, even for one model."""
    model = made.echo(tmp_path / "a.onnx", 7)
    for options in ({"seed": 1}, {"limit": 30}):
        found = compared(side(figures(tmp_path, model), "A"), side(figures(tmp_path, model, **options), "B"))
        assert not found["same_samples"]
        one = found["models"][0]["metrics"]["top1"]
        assert one["difference"]["value"] == pytest.approx(one["b"]["value"] - one["a"]["value"])
        assert one["difference"]["standard_error"] == pytest.approx(
            np.hypot(one["a"]["standard_error"], one["b"]["standard_error"])
        )
        assert found["models"][0]["changed"] == []


def test_models_are_paired_by_name_or_by_kind(tmp_path: Path) -> None:
    """The float model of one file beside the int8 model of the other would show what quantising costs as what has changed."""
    echo, negated, third = (
        made.echo(tmp_path / "a.onnx", 7),
        made.negated(tmp_path / "b.onnx", 7),
        made.echo(tmp_path / "c.onnx", 7),
    )
    found = compared(side(figures(tmp_path, echo, negated), "A"), side(figures(tmp_path, negated, third), "B"))
    assert [(one["a"], one["b"]) for one in found["models"]] == [("b.onnx", "b.onnx")]
    found = compared(side(figures(tmp_path, echo), "A"), side(figures(tmp_path, third), "B"))
    assert [(one["a"], one["b"]) for one in found["models"]] == [("a.onnx", "c.onnx")]


def test_what_does_not_compare_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A user gives a run's figures, or a file from elsewhere."""
    found = figures(tmp_path, made.echo(tmp_path / "a.onnx", 7))
    own = tmp_path / "own.py"
    own.write_text("def one(answers, target):\n    return 1\n")
    other = figures(tmp_path, tmp_path / "a.onnx", metric=f"{own}:one")
    with pytest.raises(DataError, match="A is of classification and B of own"):
        compared(side(found, "A"), side(other, "B"))
    for name in ("samples", "models", "data"):
        values: list[Any] = [None, {}, [], 3]
        for value in values:
            with pytest.raises(DataError, match="A: not what `cnna eval --json` writes"):
                side({**found, name: value}, "A")
    (tmp_path / "e.json").write_text(json.dumps(found))
    (tmp_path / "r.json").write_text(json.dumps({"cycles": 3, "layers": []}))
    assert main(["compare", str(tmp_path / "e.json"), str(tmp_path / "r.json")]) == 2
    assert "r.json: not what `cnna eval --json` writes, as the other is" in capsys.readouterr().err
    assert main(["compare", str(tmp_path / "e.json"), str(tmp_path / "e.json"), "--html", str(tmp_path / "c.html")]) == 0
    said = capsys.readouterr().out
    assert "a.onnx  top-1" in said
    assert "a.onnx: 0 answers changed, 0 to the better and 0 to the worse" in said


def test_a_file_of_another_schema_is_refused(tmp_path: Path) -> None:
    """Fields of a later version may mean something else, and would be compared as if they did not."""
    found = figures(tmp_path, made.echo(tmp_path / "a.onnx", 7))
    assert found["schema"] == 1
    for schema in (2, None, "1"):
        with pytest.raises(DataError, match=f"B: has schema {schema!r}, but this version of cnna reads 1"):
            side({**found, "schema": schema}, "B")
