"""`evaluate`: side by side on the same samples, what is kept when it is interrupted, and every mistake as one line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnna.evaluate.evaluate import evaluate
from cnna.evaluate.result import Evaluation
from cnna.evaluate.text import lines
from cnna.spec.errors import DataError, UserError

from . import made

SCALE = {"scale": 1 / 255}


def scores_and_classes(seed: int = 0, count: int = 40, classes: int = 7) -> dict[str, Any]:
    """Scores of some samples as `x`, and classes of which the greatest score is right in most."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(count, classes)).astype(np.float32)
    y = np.where(random.random(count) < 0.7, x.argmax(1), random.integers(0, classes, count))
    return {"x": x, "y": y}


@pytest.fixture
def pair(tmp_path: Path) -> dict[str, Any]:
    """Two models, their samples, and what NumPy says of both."""
    given = scores_and_classes()
    right = given["x"].argmax(1) == given["y"]
    wrong_way = (-given["x"]).argmax(1) == given["y"]
    return {
        "models": [made.negated(tmp_path / "neg.onnx", 7), made.echo(tmp_path / "echo.onnx", 7)],
        "data": made.arrays(tmp_path / "d.npz", **given),
        "cache": tmp_path / "cache",
        "right": right,
        "wrong_way": wrong_way,
        **given,
    }


def measured(pair: dict[str, Any], **options: Any) -> Evaluation:
    """The evaluation of both models."""
    return evaluate(pair["models"], pair["data"], cache=pair["cache"], **options)


def test_models_stand_side_by_side_with_their_standard_errors(pair: dict[str, Any]) -> None:
    """Shares, errors and the paired difference must be those that NumPy computes from the same answers."""
    found = measured(pair, base="echo.onnx")
    n, right, other = len(pair["y"]), pair["right"], pair["wrong_way"]
    top1 = found.model("echo.onnx").estimates["top1"]
    assert top1.value == pytest.approx(right.mean())
    assert top1.standard_error == pytest.approx(np.sqrt(right.mean() * (1 - right.mean()) / n))
    (difference,) = found.differences
    gained, lost = int((other & ~right).sum()), int((right & ~other).sum())
    assert (difference.model, difference.better, difference.worse) == ("neg.onnx", gained, lost)
    estimate = difference.estimates["top1"]
    assert estimate.value == pytest.approx((gained - lost) / n)
    assert estimate.standard_error == pytest.approx(np.sqrt(gained + lost - (gained - lost) ** 2 / n) / n)
    fifth = np.array([label in np.argsort(-x)[:5] for x, label in zip(pair["x"], pair["y"], strict=True)])
    assert found.model("echo.onnx").estimates["top5"].value == pytest.approx(fifth.mean())


def test_the_base_is_the_first_float_model_or_the_named_one(pair: dict[str, Any]) -> None:
    """A user would read a difference with its sign turned."""
    assert measured(pair).base == "neg.onnx"
    assert measured(pair, base="echo.onnx").base == "echo.onnx"
    with pytest.raises(UserError, match=r"--base other.onnx: no model of this evaluation; there are neg.onnx, echo.onnx"):
        measured(pair, base="other.onnx")


def test_samples_are_the_first_ones_or_drawn_and_that_is_said(pair: dict[str, Any]) -> None:
    """An accuracy of other samples than those that are said could not be repeated."""
    first = measured(pair, limit=9)
    assert first.numbers == tuple(range(9))
    assert first.selection == "the first 9 of 40"
    drawn = measured(pair, limit=9, seed=3)
    assert drawn.selection == "9 of 40, drawn with seed 3"
    assert drawn.numbers == measured(pair, limit=9, seed=3).numbers != measured(pair, limit=9, seed=4).numbers
    assert drawn.model("echo.onnx").estimates["top1"].value == pytest.approx(pair["right"][list(drawn.numbers)].mean())


def test_an_interrupted_evaluation_goes_on_where_it_was(pair: dict[str, Any]) -> None:
    """Hours of work would be lost at Ctrl-C; what is kept must be what a whole evaluation finds, and be said."""

    def stop(done: int, total: int) -> None:
        if done >= 16:
            raise KeyboardInterrupt

    said: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        measured(pair, count=stop, batch=8, say=said.append)
    (journal,) = (pair["cache"] / "evaluations").iterdir()
    assert said == [f"16 samples of 40 are kept in {journal}; the same command goes on from there"]
    said.clear()
    steps: list[tuple[int, int]] = []
    found = measured(pair, count=lambda done, total: steps.append((done, total)), batch=8, say=said.append)
    assert said == [f"16 samples of 40 are in {journal}; going on from there"]
    assert steps == [(16, 40), (24, 40), (32, 40), (40, 40)]
    assert not journal.exists(), "what is done needs no journal"
    whole = measured(pair).figures()
    again = found.figures()
    for model in (*whole["models"], *again["models"]):
        del model["seconds"]
    assert again == whole


def test_a_journal_of_another_evaluation_is_refused(pair: dict[str, Any], tmp_path: Path) -> None:
    """Records of other models, data or options would be mixed into one figure."""
    journal = tmp_path / "j.jsonl"
    measured(pair, journal=journal, limit=5)
    measured(pair, journal=journal, limit=12)
    kept = journal.read_bytes()
    for what, options in (("options", {"top": 3}), ("models", {}), ("data", {})):
        changed = dict(pair)
        if what == "models":
            changed["models"] = pair["models"][:1]
        if what == "data":
            changed["data"] = made.arrays(tmp_path / "e.npz", **scores_and_classes(1))
        with pytest.raises(UserError, match=rf"j.jsonl: the journal of another evaluation \(other {what}\)"):
            measured(changed, journal=journal, **options)
    assert journal.read_bytes() == kept
    journal.write_text("x,y\n")
    with pytest.raises(UserError, match=r"j.jsonl: no journal of cnna eval"):
        measured(pair, journal=journal)
    assert journal.read_text() == "x,y\n"


def test_two_processes_do_not_write_one_journal(pair: dict[str, Any], tmp_path: Path) -> None:
    """Their lines would be mixed, and each sample be measured twice."""
    journal = tmp_path / "j.jsonl"

    def again(done: int, total: int) -> None:
        with pytest.raises(UserError, match=r"j.jsonl: another process makes this evaluation now"):
            measured(pair, journal=journal)

    assert measured(pair, journal=journal, count=again).samples == 40
    with pytest.raises(UserError, match=r"gone/j.jsonl: no such file or directory; --journal F names another file"):
        measured(pair, journal=tmp_path / "gone" / "j.jsonl")


def test_what_was_being_written_when_the_process_was_killed_is_dropped(pair: dict[str, Any], tmp_path: Path) -> None:
    """Half a line would make the whole journal unreadable, or a sample count that was never measured."""
    journal = tmp_path / "j.jsonl"
    measured(pair, journal=journal)
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-3]) + lines[-3][:9])
    said: list[str] = []
    found = measured(pair, journal=journal, say=said.append)
    assert said == [f"37 samples of 40 are in {journal}; going on from there"]
    assert found.samples == 40
    assert sorted(json.loads(line)["n"] for line in journal.read_bytes().splitlines()[1:]) == list(range(40))


def test_a_folder_of_pictures_is_measured_with_what_the_model_stores(tmp_path: Path) -> None:
    """Pictures must be scaled for a float model as for the quantised one beside it, or it would see other numbers."""
    stored = made.save(tmp_path / "stored.onnx", [made.helper.make_node("GlobalAveragePool", ["x"], ["y"])], (3, 8, 8), ["y"],
                       **{"cnna.preprocess": json.dumps({"scale": 1 / 255, "mean": [0.5], "std": [0.25]})})  # fmt: skip
    plain, data = made.colours(tmp_path / "plain.onnx"), made.class_folder(tmp_path / "d")
    labels = tmp_path / "labels.txt"
    labels.write_text("\n".join(made.RED_FIRST))
    found = evaluate([plain, stored], data, labels=labels, cache=tmp_path / "c")
    assert [model.estimates["top1"].value for model in found.models] == [1.0, 1.0]
    with pytest.raises(DataError, match=r"plain.onnx: nothing says how pictures become floats"):
        evaluate(plain, data, labels=labels, cache=tmp_path / "c")
    assert evaluate(plain, data, labels=labels, preprocess=SCALE, cache=tmp_path / "c").models[0].estimates["top1"].value == 1.0


def test_a_picture_that_cannot_be_read_is_named_or_left_out_and_counted(tmp_path: Path) -> None:
    """One bad file among thousands must neither end the work without a remedy nor pass for a wrong answer."""
    model, data = made.colours(tmp_path / "m.onnx"), made.class_folder(tmp_path / "d", {"blue": 3, "green": 3, "red": 3})
    (data / "green" / "1.png").write_bytes(b"no picture")
    labels = tmp_path / "labels.txt"
    labels.write_text("\n".join(made.RED_FIRST))
    options: dict[str, Any] = {"labels": labels, "preprocess": SCALE, "cache": tmp_path / "c", "batch": 2}
    said: list[str] = []
    with pytest.raises(
        DataError, match=r"green/1.png: not a picture .*; --skip-unreadable leaves such samples out and counts them"
    ):
        evaluate(model, data, **options, say=said.append)
    assert said[0].startswith("4 samples of 9 are kept in ")
    (tmp_path / "d.csv").write_text("file,label\nd/red/0.png,red\nd/red/9.png,red\n")
    with pytest.raises(DataError, match=r"d/red/9.png: no such file; --skip-unreadable"):
        evaluate(model, tmp_path / "d.csv", **options)
    assert list(evaluate(model, tmp_path / "d.csv", **options, skip_unreadable=True).skipped) == ["d/red/9.png"]
    found = evaluate(model, data, **options, skip_unreadable=True)
    assert (found.samples, list(found.skipped)) == (8, ["green/1.png"])
    assert found.models[0].estimates["top1"].value == 1.0


def test_samples_that_lie_class_by_class_are_drawn(tmp_path: Path) -> None:
    """The first samples of a folder of classes are of one class: the accuracy would be of that class alone."""
    model, data = made.colours(tmp_path / "m.onnx"), made.class_folder(tmp_path / "d", {"blue": 9, "green": 9, "red": 9})
    found = evaluate(model, data, limit=9, preprocess=SCALE, cache=tmp_path / "c")
    assert found.selection == "9 of 27, drawn with seed 0"
    assert len({name.split("/")[0] for name in found.targets.names}) == 3


def test_an_own_function_judges_answers(tmp_path: Path) -> None:
    """A figure that the project lacks must need no script of one's own; what the function does wrong is one line."""
    given = scores_and_classes()
    data, model = made.arrays(tmp_path / "d.npz", **given), made.echo(tmp_path / "m.onnx", 7)
    (tmp_path / "beside.py").write_text("TIMES = 1\n")
    functions = tmp_path / "own.py"
    functions.write_text(
        "from beside import TIMES\n\ndef margin(answers, target):\n    scores = answers['y'][0]\n"
        "    return {'own': scores[target] * TIMES, 'most': scores.max()}\n\n"
        "def broken(answers, target):\n    return answers['z']\n\ndef text(answers, target):\n    return 'good'\n"
    )
    found = evaluate(model, data, metric=f"{functions}:margin", cache=tmp_path / "c")
    own = given["x"][np.arange(40), given["y"]]
    assert found.models[0].estimates["own"].value == pytest.approx(own.mean(), rel=1e-6)
    assert found.models[0].estimates["own"].standard_error == pytest.approx(own.std() / np.sqrt(40), rel=1e-5)
    assert found.models[0].estimates["most"].value == pytest.approx(given["x"].max(1).mean(), rel=1e-6)
    for name, said in (
        ("broken", r"own.py:broken: KeyError: 'z' \(line 8\)"),
        ("text", "it must give a number"),
        ("no", "has no function 'no'"),
    ):
        with pytest.raises(UserError, match=said):
            evaluate(model, data, metric=f"{functions}:{name}", cache=tmp_path / "c")


def test_the_output_that_is_judged_can_be_named(tmp_path: Path) -> None:
    """A network with two heads has its classes in the second one."""
    nodes = [made.helper.make_node("Neg", ["x"], ["first"]), made.helper.make_node("Identity", ["x"], ["second"])]
    model = made.save(tmp_path / "m.onnx", nodes, (7,), ["first", "second"])
    given = scores_and_classes()
    data = made.arrays(tmp_path / "d.npz", **given)
    shares = {
        name: evaluate(model, data, judged=name, cache=tmp_path / "c").models[0].estimates["top1"].value
        for name in ("first", "second")
    }
    assert shares["second"] == pytest.approx((given["x"].argmax(1) == given["y"]).mean())
    assert shares["first"] == pytest.approx(((-given["x"]).argmax(1) == given["y"]).mean())
    assert evaluate(model, data, cache=tmp_path / "c").models[0].estimates["top1"].value == shares["first"]


def test_mistakes_are_one_line_each(pair: dict[str, Any], tmp_path: Path) -> None:
    """A user would meet a traceback, or a figure of nothing."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "m.txt").write_text("x")
    nothing = made.arrays(tmp_path / "n.npz", x=np.zeros((3, 7), np.float32))
    far = made.arrays(tmp_path / "f.npz", x=np.zeros((2, 7), np.float32), y=np.array([0, 7]))
    for options, said in (
        ({"data": tmp_path / "gone"}, "gone: no such file or folder"),
        ({"data": tmp_path / "empty"}, "empty: has no folder with pictures"),
        ({"ignored": 3}, "--ignored is for segmentation, not for classification"),
        ({"data": nothing}, "n.npz: has arrays x, but none called y"),
        ({"data": tmp_path / "m.txt"}, "m.txt: line 1 .x. has no column for the file"),
        ({"data": far}, r"sample 1: class 7 is number 7, but neg.onnx has 7 classes \(0 to 6\)"),
        ({"models": [tmp_path / "m.txt"]}, r"m.txt: a model is a .cnna or an .onnx file"),
        ({"models": pair["models"][:1] * 2}, "is given twice"),
        ({"limit": 0}, "--limit 0: must be at least 1"),
        ({"seed": 1}, "give that too"),
        ({"judged": "z"}, "neg.onnx: there is no output 'z'; there are y"),
        ({"offset": 7}, "--offset 7 leaves no class of 7 outputs"),
        ({"task": "guess"}, "--task guess: there is no such task"),
        ({"device": "moon"}, "there is no device 'moon'"),
    ):
        models, data, *_ = ({**pair, **options}[name] for name in ("models", "data"))
        rest: dict[str, Any] = {name: value for name, value in options.items() if name not in ("models", "data")}
        with pytest.raises(UserError, match=said):
            evaluate(models, data, cache=tmp_path / "c", **rest)


def test_the_answers_of_one_model_may_stand_for_what_is_right(tmp_path: Path) -> None:
    """Without targets nobody could say how near int8 is to float: the function would get None in the place of float's answers."""
    x = np.random.default_rng(2).normal(size=(20, 5)).astype(np.float32)
    models = [made.negated(tmp_path / "neg.onnx", 5), made.echo(tmp_path / "echo.onnx", 5)]
    data = made.arrays(tmp_path / "d.npz", x=x)
    options: dict[str, Any] = {"metric": lambda answers, target: float((answers["y"] - target["y"]).sum()), "cache": tmp_path / "c"}
    found = evaluate(models, data, truth="echo.onnx", batch=3, **options)
    assert found.model("echo.onnx").values["<lambda>"].tolist() == [0.0] * 20
    assert found.figures()["truth"] == "echo.onnx"
    assert lines(found)[0].endswith("own; what echo.onnx answers is right")
    assert found.model("neg.onnx").values["<lambda>"] == pytest.approx(-2 * x.sum(axis=1), rel=1e-5)
    with pytest.raises(UserError, match=r"--truth other.onnx: no model of this evaluation; there are neg.onnx, echo.onnx"):
        evaluate(models, data, truth="other.onnx", **options)
    with pytest.raises(UserError, match=r"--truth names the model whose answers --metric FILE.py:NAME takes for right"):
        evaluate(models, data, truth="echo.onnx")


def test_a_journal_of_another_truth_is_refused(tmp_path: Path) -> None:
    """Half of the samples would be judged by one model's answers, and half by another's."""
    models = [made.negated(tmp_path / "neg.onnx", 5), made.echo(tmp_path / "echo.onnx", 5)]
    data, own = made.arrays(tmp_path / "d.npz", x=np.ones((4, 5), np.float32)), tmp_path / "own.py"
    own.write_text("def f(answers, target):\n    return float(answers['y'].sum())\n")
    options: dict[str, Any] = {"metric": f"{own}:f", "journal": tmp_path / "j"}
    evaluate(models, data, truth="echo.onnx", limit=2, **options)
    with pytest.raises(UserError, match=r"j: the journal of another evaluation \(other options\)"):
        evaluate(models, data, truth="neg.onnx", **options)
