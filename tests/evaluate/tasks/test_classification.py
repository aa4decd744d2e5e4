"""Top-1 and top-k: ties, NaN, a background class, and shapes of outputs."""

from typing import Any

import numpy as np

from cnna.evaluate.tasks.classification import Classification
from cnna.evaluate.tasks.task import Asked, Targets


def records(task: Classification, scores: Any, targets: list[int]) -> list[Any]:
    """The records of some answers [N, ...]."""
    return [task.record(Asked("m"), {"y": np.asarray(one)}, target) for one, target in zip(scores, targets, strict=True)]


def test_the_lowest_class_wins_a_tie() -> None:
    """int8 scores are often equal; another order than argmax's would give figures that no other tool gives."""
    task = Classification(top=2)
    (record,) = records(task, [[1.0, 3.0, 3.0, 2.0]], [1])
    assert record["top"] == [1, 2]


def test_nan_counts_as_wrong_and_apart() -> None:
    """argmax takes NaN for the greatest score: a broken model would have an accuracy."""
    task = Classification()
    made = records(task, [[0.0, np.nan, 1.0], [2.0, 0.0, 1.0]], [1, 0])
    assert [record.get("nan", False) for record in made] == [True, False]
    assert task.scores(made, Targets([1, 0], ["a", "b"]))["top1"].tolist() == [0.0, 1.0]
    assert task.words(made[0], Targets([1, 0], ["a", "b"])) == "NaN"


def test_a_background_stands_before_the_classes() -> None:
    """Models of TensorFlow's have 1,001 outputs: each class would be one too high."""
    task = Classification(offset=1)
    made = records(task, [[0.0, 5.0, 1.0], [9.0, 0.0, 1.0]], [0, 0])
    data = Targets([0, 0], ["a", "b"], ("cat", "dog"))
    assert task.scores(made, data)["top1"].tolist() == [1.0, 0.0]
    assert [task.words(record, data) for record in made] == ["cat", "background"]


def test_top_k_is_what_sorting_gives_whatever_the_outputs_shape() -> None:
    """[1, C, 1, 1], as SqueezeNet answers, has the same classes as [C]."""
    scores = np.random.default_rng(0).normal(size=(50, 1, 9, 1, 1)).astype(np.float32)
    targets = np.random.default_rng(1).integers(0, 9, 50).tolist()
    task = Classification(top=3)
    values = task.scores(records(task, scores, targets), Targets(targets, ["s"] * 50))
    order = np.argsort(-scores.reshape(50, 9), axis=1, kind="stable")
    assert values["top1"].tolist() == [float(order[n, 0] == targets[n]) for n in range(50)]
    assert values["top3"].tolist() == [float(targets[n] in order[n, :3]) for n in range(50)]
