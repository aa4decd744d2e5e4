"""Lives of versions and boards, without a clock: whatever happens, in whatever order, all ends as it is wanted.

The scenes are races that servers had once. Behind them Hypothesis draws what happens.
"""

import pytest

from cnna.serve.lifecycle import batches, boards, versions
from cnna.serve.lifecycle.batches import AGAIN, CUT, DONE, END, LATER, SPARE, Tried, verdict
from cnna.serve.lifecycle.versions import UNAVAILABLE, ModelLife, VersionLife

from .machine import after, live

STEPS = 100_000
SECOND = ("publish", "load", "advance")  # version 2 is being read and tested
READY = (*SECOND, "advance", "advance")  # and is served


def always(version: str) -> bool:
    """Whatever is asked of a version holds."""
    return True


def test_whatever_happens(pytestconfig: pytest.Config) -> None:
    """A request would never end, or twice; a version would load for ever, or come back against an operator's word."""
    said = live(STEPS, pytestconfig.getoption("--seed"))
    assert said["steps"] >= STEPS
    assert set(said) == {"steps", "version ready", "version refused", "switched", "rolled back", "version lost"}, "all was reached"


@pytest.mark.parametrize(
    ("scene", "default"),
    [
        ((*SECOND, "unload", "advance"), None),
        ((*SECOND, "load", "unload", "advance", "advance", "advance"), None),
        ((*SECOND, "unload", "load", "advance"), "2"),
        (("load", "unload"), None),
        (("unload", "load"), "1"),
        ((*SECOND, "break off"), "1"),
        ((*SECOND, "break off", "load"), "2"),
        ((*SECOND, "kill a", "kill b", "advance"), "1"),
        ((*SECOND, "kill a", "advance", "rest a", "start sick a", "reconcile a"), "2"),
        (("publish a bad one", "load"), "1"),
        ((*READY, "ask for 1", "load", "admit", "send a", "unload", "load"), "2"),
    ],
)
def test_the_last_word_and_what_is_wanted(scene: tuple[str, ...], default: str | None) -> None:
    """A load that ends late would bring a model back, or an unload would undo a load that came after it."""
    world = after(*scene)
    world.settle()
    assert world.model.default == default
    assert world.model.wanted == (default is not None)


def test_a_board_that_starts_gets_what_is_loaded_meanwhile() -> None:
    """It would be ready without the new version."""
    world = after("kill b", "rest b", "start b", *READY, "reconcile b", "reconcile b", "reconcile b")
    assert world.boards["b"].life.state == boards.READY
    assert set(world.boards["b"].held) == {"1", "2"}


def test_requests_of_a_version_that_no_board_has_end_at_once() -> None:
    """They would wait for their deadlines, and a board would be taken for broken."""
    world = after("ask for 2", *READY, "admit", "spoil", "kill a", "kill b")
    assert [request.ends for request in world.requests] == [[]]
    world.settle()
    assert [request.ends for request in world.requests] == [["lost"]]
    assert world.model.of("2").state == UNAVAILABLE
    assert world.model.default == "1"


def test_a_version_that_kills_boards_is_taken_back_and_waits_for_an_operator() -> None:
    """It would take all boards down, or come back by itself because another version waits for its server."""
    world = after(*READY, "admit")
    for board, default in (("a", "2"), ("b", "2"), ("a", "1")):
        world.happened(world.model.fault("2", board))
        assert world.model.default == default
    assert world.model.of("2").reason == "rolled back: 3 device faults in a row, on boards a, b"
    world.settle()
    assert world.model.default == "1"
    assert versions.next_load(world.model, ["2"], (), again=True) == (versions.CHOOSE, "")
    assert versions.next_load(world.model, ["2"], ()) == (versions.LOAD, "2")
    busy = ModelLife({"2": VersionLife(UNAVAILABLE, "no answer", busy=True)})
    assert versions.next_load(busy, ["2"], (), again=True) == (versions.LOAD, "2")


def test_a_bad_version_and_a_bad_board() -> None:
    """One bad version would take every board out, or a bad board would serve."""
    held = {"1": boards.HELD, "2": boards.DIFFERS}
    assert boards.next_step(["1", "2"], held, always, always) == boards.Step("drop", "2")
    assert boards.next_step(["2"], {"2": boards.DIFFERS}, always, always) == boards.Step("fail", "2")
    assert boards.next_step(["2"], {"2": boards.DIFFERS}, always, lambda version: False) == boards.Step("drop", "2")
    assert boards.next_step(["2", "3"], {"2": boards.DIFFERS}, always, always) == boards.Step("load", "3"), "it may agree"
    assert boards.next_step(["2"], held, always, always) == boards.Step("free", "1")


def test_failures_grow_the_pause_and_an_operator_ends_it() -> None:
    """A board would come back as if nothing had been, or count its operator's resets as failures."""
    life, pauses = boards.BoardLife(), list[float | None]()
    for _ in range(3):
        life, effects = life.ended("it died", 3, (1.0, 60.0))
        pauses += [effect.seconds for effect in effects if isinstance(effect, boards.Rest)]
        life, _ = life.rested()
    assert (life.state, life.failures, pauses) == (boards.OUT, 3, [1.0, 2.0, None])
    life, _ = life.reset()
    life, _ = life.loaded()
    life, effects = life.reset()
    assert effects == (boards.Kill(boards.RESET),)
    life, _ = life.ended(boards.RESET, 3, (1.0, 60.0))
    assert (life.state, life.failures, life.resets) == (boards.STARTING, 0, 4)
    life, _ = life.closed()
    for step in (life.reset(), life.rested(), life.loaded(), life.ended("", 3, (1.0, 60.0))):
        assert step == (life, ())


@pytest.mark.parametrize(
    ("tries", "requests", "spare", "closed", "outcome", "what", "left"),
    [
        (0, 2, False, False, batches.ANSWERED, DONE, 0),
        (0, 2, False, False, batches.DATA, CUT, 0),
        (0, 1, False, False, batches.DATA, END, 0),
        (0, 1, False, False, batches.LATE, END, 0),
        (0, 1, False, False, batches.LOST, AGAIN, 1),
        (2, 1, False, False, batches.BEHIND, AGAIN, 2),
        (2, 1, False, False, batches.LOST, END, 3),
        (2, 1, True, False, batches.LOST, SPARE, 0),
        (1, 1, True, False, batches.BUSY, LATER, 2),
        (2, 1, False, True, batches.FAULT, DONE, 3),
    ],
)
def test_what_becomes_of_a_batch(tries: int, requests: int, spare: bool, closed: bool, outcome: str, what: str, left: int) -> None:
    """A batch that kills boards would go round for ever; one that only waited behind it would fail with it."""
    found = verdict(Tried(tries, 2, requests, spare, by_spare=False, closed=closed), outcome)
    assert (found.what, found.tries) == (what, left)
    assert found.board == (outcome == batches.FAULT)
    assert found.counts == (outcome == batches.LOST)
