"""Chooses the plan of a program. This is the whole of the choice:

1. `search.finalists` plans a batch with its best cuts, then the best of these plans with one thing changed: the kernels in another
   order, in bands of rows, with images abreast, and with maps in any region. The cost is the estimate `Plan.clocks`. The best plan
   is a finalist, and so is the best one of every other kind that is about as good.
2. If there is more than one, the predictor's clocks are the cost, unless the program is too long for it. Of plans that it cannot
   tell apart the one with the best estimate is taken.
3. `mixed` makes plans in waves, where the vector engine has enough to do, and puts weights in another order. The predictor alone
   judges them, and one of them is taken only if it is clearly faster than the best finalist.

A program is planned once and predicted once, whatever ways lead to it. Its prediction ends as soon as it certainly is not chosen.
The numbers are in `plan.limits`.
"""

from collections.abc import Callable, Sequence
from math import inf

from cnna.compiler.choose.mixed import Predict, Predicted, clocks, mixed
from cnna.compiler.choose.search import finalists, in_waves, unlike
from cnna.compiler.lower.kernels import Lowered
from cnna.compiler.plan.forced import NOTHING, Forced
from cnna.compiler.plan.limits import LIMITS, PlanLimits
from cnna.compiler.plan.plan import KnownPlans, Plan, Planner
from cnna.compiler.predict.known_stretches import KnownStretches
from cnna.compiler.predict.predict import Count, PredictedSpan, TooManyClocksError, predicted_spans
from cnna.spec.config import Config

Chosen = tuple[Plan, Sequence[PredictedSpan] | None]
Choose = Callable[[Lowered, Config, str, Count | None], Chosen]


def fastest_plan(
    lowered: Lowered,
    config: Config,
    name: str,
    count: Count | None = None,
    limits: PlanLimits = LIMITS,
    forced: Forced = NOTHING,
    plans: KnownPlans | None = None,
    known: KnownStretches | None = None,
) -> Chosen:
    """The plan that takes the fewest clocks as far as can be told, and its predicted spans, if it was predicted for the choice.

    count: as of `finalists` and `predicted_spans`. forced: what every plan has. plans: as of `Planner`.
    known: as of `predicted_spans`, for the planned DDR. ModelError: no way fits.
    """

    stretches = KnownStretches() if known is None else known
    made: dict[bytes, Sequence[PredictedSpan]] = {}  # a plan of `mixed` may be one of the finalists

    def predict(program: bytes, most: float) -> Sequence[PredictedSpan] | None:
        if program not in made:
            try:
                made[program] = predicted_spans(program, config, count=count, known=stretches, most=most)
            except TooManyClocksError:
                return None
        return made[program]

    planner = Planner(lowered, config, name, limits, forced, plans or KnownPlans())
    found = unlike(finalists(planner, count))
    if found[0].clocks > limits.predicted_clocks:
        return found[0], None
    return taken(found, unlike(in_waves(planner, found[0].way.cut)), config, predict, limits)


def taken(plans: Sequence[Plan], waved: Sequence[Plan], config: Config, predict: Predict, limits: PlanLimits = LIMITS) -> Chosen:
    """The fastest of the finalists `plans`, or what `mixed` makes of the plans `waved` if that is clearly faster.

    One plan alone is taken without spans. A plan is given up as soon as it certainly takes too many clocks. It would
    not be taken, and it would not change how others are judged.
    """
    if len(plans) == 1 and not waved:
        return plans[0], None
    predicted: list[Predicted] = []
    least = inf
    for plan in plans:
        spans = predict(plan.program, (1 + limits.same_share) * least)
        if spans is not None:
            predicted.append((plan, spans))
            least = min(least, clocks(predicted[-1]))
    best = next(one for one in predicted if clocks(one) <= (1 + limits.same_share) * least)
    most = limits.clearly * clocks(best)
    other = min(mixed(waved, config, predict, most), key=clocks, default=best)
    return other if clocks(other) <= most else best
