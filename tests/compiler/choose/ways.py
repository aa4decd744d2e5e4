"""Other choices of a plan than the compiler's, so that tests see plans that it seldom takes."""

from collections.abc import Callable, Iterable

from cnna.compiler.choose.choose import Choose
from cnna.compiler.plan.limits import LIMITS, PlanLimits
from cnna.compiler.plan.plan import Plan, Planner, Way
from cnna.spec.errors import ModelError


def best(planner: Planner, ways: Iterable[Way]) -> Plan:
    """The plan of the ways that is estimated to take the fewest clocks. Ways that do not fit are left out."""
    found = []
    for way in ways:
        try:
            found.append(planner.plan(way))
        except ModelError as error:
            refused = error
    if not found:
        raise refused
    return min(found, key=lambda plan: plan.clocks)


def best_of(ways: Callable[[Planner], Iterable[Way]], limits: PlanLimits = LIMITS) -> Choose:
    """Takes the `best` of the ways that a function names for a planner, unpredicted."""

    def choose(lowered, config, name, count):
        planner = Planner(lowered, config, name, limits)
        return best(planner, ways(planner)), None

    return choose
