"""Retrieval beside a search that looks at each pair, and what counts where there is nothing to find."""

import numpy as np
import pytest

from cnna.evaluate.tasks.embedding import Embedding
from cnna.evaluate.tasks.task import Asked, Targets


def test_retrieval_is_that_of_a_search_of_all_pairs() -> None:
    """The sample itself is always nearest: counted, it would make each recall 1."""
    random = np.random.default_rng(0)
    classes = random.integers(0, 5, 40).tolist()
    vectors = random.normal(size=(40, 8)) + np.eye(8)[classes] * 1.5
    task, data = Embedding(), Targets(classes, ["s"] * 40)
    records = [task.record(Asked("m"), {"y": vector[None].astype(np.float32)}, None) for vector in vectors]
    found = task.scores(records, data)
    for number in range(40):
        others = [n for n in range(40) if n != number]
        unit = [vectors[n] / np.linalg.norm(vectors[n]) for n in range(40)]
        others.sort(key=lambda n: -float(unit[n] @ unit[number]))
        same = [classes[n] == classes[number] for n in others]
        assert found["recall1"][number] == same[0]
        assert found["recall5"][number] == any(same[:5])
        precision = [sum(same[: place + 1]) / (place + 1) for place, hit in enumerate(same) if hit]
        assert found["map"][number] == pytest.approx(np.mean(precision))


def test_a_class_of_one_sample_has_nothing_to_find_and_nan_finds_nothing() -> None:
    """A mean over samples that cannot be right would be too low; over broken ones that are left out, too high."""
    task, data = Embedding(), Targets([0, 0, 1], ["a", "b", "c"])
    answers = [[1.0, 0.0], [np.nan, 0.0], [0.0, 1.0]]
    records = [task.record(Asked("m"), {"y": np.array(answer)}, None) for answer in answers]
    assert records[1]["nan"]
    found = task.scores(records, data)["recall1"]
    assert found[:2].tolist() == [0.0, 0.0]
    assert np.isnan(found[2])


def test_models_are_alike_by_the_cosine_of_both_vectors() -> None:
    """Int8 embeddings are judged by how far they turn, not by their length."""
    task = Embedding()
    one, other = (task.record(Asked("m"), {"y": np.array(vector)}, None) for vector in ([3.0, 4.0], [8.0, 6.0]))
    assert task.alike(one, other) == pytest.approx(24 / 25)
    assert task.alike(one, task.record(Asked("m"), {"y": np.array([1.0, 0.0, 0.0])}, None)) is None
