"""Whatever a user gives to a model on a board, the native run loop answers or refuses as the Python path does, word for word."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnna.host.model.board_model import BoardModel
from cnna.host.native import answers, library
from cnna.spec import cpu_ops
from cnna.spec.artifact import Artifact
from cnna.spec.errors import CnnaError

from ..emulated_board import EmulatedBoard
from ..hand_made import SHAPE, requantised_copy, samples
from ..mapped_board import MappedBoard
from ..native.cases import misplaced

FEEDS = 300
Change = Callable[[NDArray[Any], np.random.Generator], Any]


def read_only(x: NDArray[Any]) -> NDArray[Any]:
    """A copy that nobody may write to."""
    made = x.copy()
    made.flags.writeable = False
    return made


def pitched(x: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """The same values in rows of a longer pitch, with other values between them."""
    room = rng.normal(0, 50, (*x.shape[:-1], x.shape[-1] + 3)).astype(x.dtype)
    room[..., 1:-2] = x
    return room[..., 1:-2]


CHANGES: tuple[Change, ...] = (
    lambda x, rng: x,
    lambda x, rng: np.asfortranarray(x),
    lambda x, rng: np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
    lambda x, rng: np.flip(x, int(rng.integers(x.ndim))),
    lambda x, rng: np.flip(np.ascontiguousarray(x.transpose(0, 2, 3, 1)), 3).transpose(0, 3, 1, 2),
    lambda x, rng: x[::-1, ::-1, ::-1, ::-1],
    lambda x, rng: np.repeat(x, 2, axis=3)[..., ::2],
    pitched,
    lambda x, rng: misplaced(x),
    lambda x, rng: misplaced(x)[..., ::-1],
    lambda x, rng: read_only(x),
    lambda x, rng: np.broadcast_to(x[:, :1], x.shape),
    lambda x, rng: np.broadcast_to(x[:, :, :1, :1], x.shape),
    lambda x, rng: x.astype(x.dtype.newbyteorder()),
    lambda x, rng: x.astype(rng.choice(["f2", "f4", "f8", ">f8", "i1", "u1", "i4", "?", "c8", "O", "U3"])),
    lambda x, rng: np.ma.masked_array(x),
    lambda x, rng: x.tolist(),
    lambda x, rng: x[:0],
    lambda x, rng: x[..., :0],
    lambda x, rng: x[..., : int(rng.integers(1, 4))],
    lambda x, rng: x.reshape(*x.shape[:2], -1),
    lambda x, rng: x[0],
    lambda x, rng: x[..., None],
    lambda x, rng: np.float32(3),
    lambda x, rng: None,
    lambda x, rng: [x.tolist(), [1]],
    lambda x, rng: x.transpose(0, 2, 3, 1),
    lambda x, rng: _with(x, rng, np.nan),
    lambda x, rng: _with(x, rng, np.inf),
    lambda x, rng: _with(x, rng, 3e38),
    lambda x, rng: {"other": x},
    lambda x, rng: {"x": x, "more": x},
    lambda x, rng: {},
)


def _with(x: NDArray[Any], rng: np.random.Generator, value: float) -> NDArray[Any]:
    made = x.astype(np.float32)
    made.flat[int(rng.integers(made.size))] = value
    return made


def feeds(count: int, seed: int, pictures: bool) -> Iterator[Any]:
    """Feeds, most of them with something unusual, some with two such things."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        x: Any = samples(int(rng.integers(1, 4)), seed=number)
        if pictures and rng.random() < 0.8:
            x = rng.integers(0, 256, x.shape, np.uint8)
            if rng.random() < 0.5:
                x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        changes = [CHANGES[number % len(CHANGES)], CHANGES[int(rng.integers(14))]]
        for change in changes[: 1 + int(rng.random() < 0.3)][::-1]:
            if isinstance(x, np.ndarray) and x.ndim == 4:
                x = change(x, rng)
        yield x


def said(call: Callable[[], Any]) -> Any:
    """What a call gives, or the kind and the words of its error."""
    try:
        found = call()
    except CnnaError as error:
        return type(error), str(error)
    return [np.asarray(y) for y in (found if isinstance(found, list) else [found])]


def all_said(model: BoardModel, given: list[Any], numbers: list[int]) -> list[Any]:
    """What a model says to feeds: every third by `run`, the others by `stream`."""

    def answer(x: Any, number: int) -> Any:
        return model.run(x) if number % 3 else list(model.stream([x]))

    return [said(partial(answer, x, number)) for x, number in zip(given, numbers, strict=True)]


STORED = {"scale": 0.3, "mean": [1.5] * SHAPE[0], "std": [2.0, 1, 1, 1, 4, 1]}


@pytest.mark.parametrize("pictures", [False, True], ids=["float32", "uint8"])
def test_the_native_path_says_what_pythons_says(pictures: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stride, type or size that only the library sees would read other memory, or end in a traceback where numpy has a line."""
    artifact: Artifact = requantised_copy(batch=2, preprocess=STORED if pictures else None)
    given = list(feeds(FEEDS, seed=5 + pictures, pictures=pictures))
    numbers = list(range(FEEDS))
    with monkeypatch.context() as without:
        without.setattr(library, "native", lambda: library.Found(None, "a test"))
        board = EmulatedBoard()
        with BoardModel(artifact, board) as model:
            wanted = all_said(model, given, numbers)
            model.close()
            wanted.append(said(lambda: model.run(given[0])))
    mapped = MappedBoard()
    monkeypatch.setattr("cnna.host.model.board_model.PingPong", None)
    with BoardModel(artifact, mapped) as model:
        found = all_said(model, given, numbers)
        model.close()
        found.append(said(lambda: model.run(given[0])))
    mapped.shut()
    for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
        same = one == other if isinstance(other, tuple) or isinstance(one, tuple) else all(map(np.array_equal, one, other))
        assert same, (number, one, other)
    refused = sum(isinstance(one, tuple) for one in wanted)
    assert FEEDS / 4 < refused < FEEDS * 3 / 4, "the feeds are all of one kind"


def test_answers_of_any_layout_are_numpys() -> None:
    """What follows the scores takes what a user's own code made of them."""
    rng = np.random.default_rng(9)
    for number in range(FEEDS):
        x: Any = rng.normal(0, 5, rng.integers(1, 7, int(rng.integers(1, 4)))).astype(np.float32)
        kind = number % 8
        x = (
            x, np.asfortranarray(x), x[::-1], np.repeat(x, 2, axis=-1)[..., ::2], misplaced(x), read_only(x), x.astype(">f4"),
            x.astype(np.float64),
        )[kind]  # fmt: skip
        axis = int(rng.integers(-x.ndim, x.ndim))
        k = min(3, x.shape[axis])
        for one, other in (
            (answers.softmax(x, axis), cpu_ops.softmax(x, axis)),
            (answers.argmax(x, axis), x.argmax(axis)),
            (answers.top_k(x, k, axis), cpu_ops.top_k(x, k, axis)),
        ):
            assert all(map(np.array_equal, *((y if isinstance(y, tuple) else (y,)) for y in (one, other)))), (kind, x.shape, axis)
