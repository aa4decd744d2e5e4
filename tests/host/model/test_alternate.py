"""Batches of two models in one turn, from a source that may have nothing yet: right answers at every order, at once, in overlap."""

import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

from cnna.host.model.alternate import BoardBatch, alternate
from cnna.host.model.board_model import BoardModel
from cnna.host.model.flight import NOT_YET, NotYet
from cnna.spec.errors import DataError, RunError, TimedOutError
from cnna.spec.regmap import REGISTERS, offset

from ..emulated_board import EmulatedBoard, hanging
from ..hand_made import expected, failing, requantised_copy, samples

Models = list[BoardModel]
SIZES = {"a": 1, "b": 2}  # the batches of both models


@contextmanager
def opened(board: EmulatedBoard, retries: int = 1, timeout_seconds: float = 10.0, turn_seconds: float = 60.0) -> Iterator[Models]:
    """Two models on one board."""
    options = partial(BoardModel, board=board, retries=retries, timeout_seconds=timeout_seconds, turn_seconds=turn_seconds)
    with (
        options(requantised_copy(batch=1)) as first,
        options(requantised_copy(batch=2)) as second,
    ):
        yield [first, second]


def batch(models: Models, letter: str, number: int = 0) -> BoardBatch:
    """A batch of one of the models; its tag says which."""
    return BoardBatch.of(models, "ab".index(letter), {"x": samples(SIZES[letter], number)}, (letter, number))


def said(models: Models, letters: Iterable[str]) -> Iterator[BoardBatch | NotYet]:
    """A source: a and b stand for batches of the models, a dot for nothing yet."""
    for number, letter in enumerate(letters):
        yield NOT_YET if letter == "." else batch(models, letter, number)


def check(answers: Iterable[tuple[BoardBatch, dict[str, np.ndarray]]], letters: Iterable[str]) -> None:
    """The answers are those to the batches, in order."""
    wanted = [(letter, number) for number, letter in enumerate(letters) if letter != "."]
    found = []
    for each, outputs in answers:
        letter, number = each.tag
        found.append(each.tag)
        assert np.array_equal(outputs["y"], expected(samples(SIZES[letter], number)))
    assert found == wanted


def idle(board: EmulatedBoard) -> bool:
    return not REGISTERS["STATUS"].unpack(board.read(offset("STATUS")))["busy"]


@pytest.mark.parametrize("looks", [0, 3], ids=["at once", "later"])
def test_every_order_of_two_models_and_nothing(board, monkeypatch, looks):
    """A batch would be lost, given twice, or get the answer of the other model, whose registers or slot it found."""
    left, ended = [0], board.ended

    def late() -> bool:
        """The end of a run is seen at the third look."""
        left[0] = looks if left[0] < 0 else left[0] - 1
        return left[0] < 0 and ended()

    with opened(board) as models:
        monkeypatch.setattr(board, "ended", late)
        for letters in itertools.product(".ab", repeat=4):
            check(alternate(models, said(models, letters)), letters)
            assert idle(board)
        monkeypatch.undo()


def test_an_answer_does_not_wait_for_the_next_batch(board):
    """A client that waits for its answer before it asks again would wait for ever."""
    given: list[str] = []

    def source() -> Iterator[BoardBatch | NotYet]:
        for number, letter in enumerate("abba"):
            while len(given) < number:
                yield NOT_YET
            yield batch(models, letter)

    with opened(board) as models:
        for each, outputs in alternate(models, source()):
            given.append(each.tag[0])
            assert np.array_equal(outputs["y"], expected(samples(SIZES[each.tag[0]])))
    assert given == list("abba")


def test_what_comes_while_a_batch_runs_is_copied_beside_it(board, monkeypatch):
    """The accelerator would stand still while the batch that has come is packed and copied."""
    stored: list[int] = []
    ended, store = board.ended, board.store

    with opened(board, timeout_seconds=5, retries=0) as models:
        monkeypatch.setattr(board, "store", lambda address, data: (stored.append(address), store(address, data)))
        monkeypatch.setattr(board, "ended", lambda: len(stored) > 1 and ended())  # the first run ends with the second copy
        check(alternate(models, said(models, "a...b")), "a...b")
        monkeypatch.undo()


def test_an_error_is_tried_again_and_one_that_lasts_ends_the_turn(board, monkeypatch):
    """A server would lose the board for one bad answer of the bus, or never hear of a board that is broken."""
    with opened(board, retries=1) as models:
        failures = failing(monkeypatch, type(board.emulator))
        check(alternate(models, said(models, "ab.a")), "ab.a")
        answers = alternate(models, said(models, "a.bab"))
        assert next(answers)[0].tag == ("a", 0)
        failures[0] = 99
        with pytest.raises(RunError, match="stopped: read_response SLVERR on port 0"):
            list(answers)
        failures[0] = 0
        assert idle(board)
        check(alternate(models, said(models, ".b")), ".b")


def test_a_hang_is_noticed_while_there_is_nothing(board, monkeypatch):
    """The last client of the day would wait for ever on a board that stands still."""
    with opened(board, retries=1, timeout_seconds=0.3) as models:
        with hanging(board, monkeypatch), pytest.raises(TimedOutError, match=r"hangs: no progress for 0\.3 s"):
            next(alternate(models, said(models, itertools.chain("a", itertools.repeat(".")))))
        check(alternate(models, said(models, "ba")), "ba")


@pytest.mark.parametrize("letters", ["", "a", "a.", "ab", "ab."])
def test_an_error_of_the_source_is_its_own(board, letters):
    """It would be taken for the accelerator's and tried again, or leave a program running and the turn taken."""

    def source() -> Iterator[BoardBatch | NotYet]:
        yield from said(models, letters)
        raise RunError("the source")

    with opened(board) as models:
        with pytest.raises(RunError, match=r"^the source$"):
            list(alternate(models, source()))
        assert idle(board)
        check(alternate(models, said(models, "ab")), "ab")


@pytest.mark.parametrize("answered", [1, 2, 3])
def test_closing_early_gives_the_turn_back(board, answered):
    """Another process would be told that the accelerator is busy, and memory would be freed under a program that runs."""
    with opened(board, turn_seconds=0.1) as models:
        answers = alternate(models, said(models, itertools.cycle("ab.")))
        for _ in range(answered):
            next(answers)
        with pytest.raises(RunError, match=r"this thread has the accelerator already: .*models? copy"):
            models[0].run(samples(1))
        answers.close()
        assert idle(board)
        assert np.array_equal(models[0].run(samples(1)), expected(samples(1)))


def test_what_cannot_alternate_is_refused(board):
    """Batches of a model on another board would run on this one; a batch that is too large would be cut."""
    other = EmulatedBoard()
    with opened(board) as models, BoardModel(requantised_copy(batch=1), other) as elsewhere:
        with pytest.raises(DataError, match="on several"):
            alternate([*models, elsewhere], [])
        with pytest.raises(DataError, match="on several, or there is none"):
            alternate([], [])
        with pytest.raises(DataError, match="2 samples at once, its batch is 1"):
            BoardBatch.of(models, 0, {"x": samples(2)})
