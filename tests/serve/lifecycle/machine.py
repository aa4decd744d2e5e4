"""The world as a state machine of Hypothesis: it draws what happens next, and shrinks what goes wrong to a few steps."""

from collections import Counter
from collections.abc import Callable, Iterable

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from cnna.serve.lifecycle import batches

from .world import World

OUTCOMES = (batches.DATA, batches.LATE, batches.BUSY, batches.FAULT)
STEPS, AT_ONCE = 400, 100  # in a life, and those of them that are drawn together, since that is quicker
NOTHING = "nothing"  # the first: what goes wrong without an action is shown without it
OFTEN = 10  # times as often as the others
Action = Callable[[World], object]


def _each(what: str, method: Callable[[World, str], object], given: Iterable[str] = "ab") -> dict[str, Action]:
    """An action for each board, or for each of what is given."""

    def action(one: str) -> Action:
        return lambda world: method(world, one)

    return {f"{what} {one}": action(one) for one in given}


def _answer(outcome: str) -> Callable[[World, str], object]:
    return lambda world, board: world.answer(board, outcome)


ENGINE: dict[str, Action] = {
    "advance": World.advance,
    "drain": World.drain,
    "admit": World.admit,
    **_each("reconcile", World.reconcile),
    **_each("send", World.send),
    **_each("start", lambda world, board: world.start(board, sick=False)),
    **_each("rest", World.rest),
    **_each("answer", _answer(batches.ANSWERED)),
}
OTHERS: dict[str, Action] = {
    "publish": lambda world: world.publish(good=True),
    "publish a bad one": lambda world: world.publish(good=False),
    **_each("ask for", lambda world, count: world.ask_for(int(count)), "123"),
    "load": World.load,
    "unload": World.unload,
    "break off": World.break_off,
    "spoil": World.spoil_one,
    **_each("late", lambda world, place: world.late(int(place)), "012"),
    **_each("reset", World.reset),
    **_each("kill", World.kill),
    **_each("start sick", lambda world, board: world.start(board, sick=True)),
    **{name: action for what in OUTCOMES for name, action in _each(what, _answer(what)).items()},
}
ACTIONS = {NOTHING: lambda world: None} | ENGINE | OTHERS
AT_TIMES = ("publish", "load", "ask for 3", "reset a", "reset b")
MORE = tuple(f"{what} {name}" for what in ("fault", "start") for name in "ab")
DRAWN = [NOTHING, *OFTEN * list(ENGINE), *OTHERS, *3 * AT_TIMES, *2 * OFTEN * MORE]


def after(*actions: str) -> World:
    """A world in which these have happened, one after another, and all that must hold holds."""
    world = World()
    for action in actions:
        ACTIONS[action](world)
        world.check()
    return world


def live(steps: int, number: int) -> Counter[str]:
    """Takes so many steps, in lives of STEPS each; returns how often what was said. number: other steps for each."""
    said = Counter[str]()

    class Lives(RuleBasedStateMachine):
        """Anything may come at any time: what cannot happen then does nothing."""

        def __init__(self) -> None:
            super().__init__()
            self.world = World()

        @rule(what=st.lists(st.sampled_from(DRAWN), min_size=AT_ONCE, max_size=AT_ONCE))
        def happens(self, what: list[str]) -> None:
            for one in what:
                ACTIONS[one](self.world)
                self.world.check()
            said["steps"] += len(what)

        def teardown(self) -> None:
            self.world.settle()
            said.update(self.world.said)

    some = settings(
        max_examples=steps // STEPS,
        stateful_step_count=STEPS // AT_ONCE,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
    )
    run_state_machine_as_test(seed(number)(Lives), settings=some)
    return said
