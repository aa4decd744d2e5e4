"""Plans the ways that a network may run in, and finds those with the fewest estimated clocks (`Plan.clocks`).

Ways are tried step by step: each step changes the best plans of the steps before it in one respect.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from cnna.compiler.choose.cuts import cuts
from cnna.compiler.cost.engine_steps import kernel_clocks
from cnna.compiler.lower.kernels import ConvKernel, Lowered, VectorKernel
from cnna.compiler.plan.plan import Plan, Planner, Way
from cnna.compiler.predict.predict import Count
from cnna.spec.config import Config
from cnna.spec.errors import ModelError

PLANNING = "comparing plans"


@dataclass(eq=False)
class _Search:
    """The plans that have been made so far. most: the ways that may be attempted."""

    planner: Planner
    most: int = 0
    count: Count | None = None
    found: list[Plan] = field(default_factory=list)
    refused: list[ModelError] = field(default_factory=list)

    def attempt(self, ways: Iterable[Way]) -> None:
        """Makes the plan of each way, except for ways that exceed the limits of a command."""
        for way in ways:
            try:
                self.found.append(self.planner.plan(way))
            except ModelError as error:
                self.refused.append(error)
            if self.count:
                self.count(len(self.found) + len(self.refused), self.most, PLANNING)

    def sorted(self) -> list[Plan]:
        """The plans, the fastest first. Equal ones keep the order in which they were found."""
        return sorted(self.found, key=lambda made: made.clocks)

    def leading(self) -> list[Way]:
        """The ways of the fastest plans so far."""
        return [made.way for made in self.sorted()[: self.planner.limits.leaders]]


def finalists(planner: Planner, count: Count | None = None) -> list[Plan]:
    """The fastest program found, and those of other kinds whose estimates are so close that they may be faster.

    Kinds differ in the order of the kernels or in bands. count: is told of each plan that was made, of as many as there may be.
    ModelError: no way fits, for the reasons that `Planner.plan` gives.
    """
    kernels, limits = planner.lowered.kernels, planner.limits
    several = bool(kernels) and kernels[0].images[1] > 1
    tried = cuts(planner.lowered, planner.config, limits.cuts)
    search = _Search(planner, len(tried) + 2 * limits.leaders + (limits.leaders + 1) * several + 1, count)
    search.attempt(map(Way, tried))
    if planner.in_other_order.kernels != kernels:
        search.attempt(replace(way, reordered=True) for way in search.leading())
    if max(planner.bands, default=1) > 1:
        search.attempt(replace(way, banded=True) for way in search.leading())
    if several:
        ways = dict.fromkeys([*search.leading(), Way(len(kernels))])
        search.attempt(replace(way, abreast=limits.abreast) for way in ways if way.cut)
    search.attempt(replace(way, apart=False) for way in search.leading()[:1])
    if not search.found:
        raise search.refused[0]
    kinds: dict[tuple[bool, bool], Plan] = {}
    for made in search.sorted():
        kinds.setdefault((made.way.reordered, made.way.banded), made)
    first, *others = kinds.values()
    return [first, *(made for made in others if made.clocks <= first.clocks * limits.close)]


def in_waves(planner: Planner, cut: int) -> list[Plan]:
    """The best plans in which bands of several layers are mixed, the best estimate first. cut: of the best other plan.

    There is none if the vector engine has too little to do beside the array.
    """
    if not _shared(planner.lowered, planner.config, planner.limits.vector_share):
        return []
    search = _Search(planner)
    tried = dict.fromkeys([cut, *cuts(planner.lowered, planner.config, planner.limits.leaders)])
    search.attempt(Way(cut, waves=bands) for cut in tried for bands in planner.limits.wave_bands)
    return search.sorted()[: planner.limits.leaders]


def _shared(lowered: Lowered, config: Config, share: float) -> bool:
    """Whether the vector engine has at least that share of the array's work."""
    work = {VectorKernel: 0, ConvKernel: 0}
    for kernel in lowered.kernels:
        work[type(kernel)] += kernel_clocks(kernel, lowered, config)
    return work[VectorKernel] >= work[ConvKernel] * share


def unlike(plans: Iterable[Plan]) -> list[Plan]:
    """The first plan of each program: another order or bands may make the same one."""
    found: dict[bytes, Plan] = {}
    for plan in plans:
        found.setdefault(plan.program, plan)
    return list(found.values())
