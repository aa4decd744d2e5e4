"""Plans in which bands of several layers are mixed, and in which weights come in another order.

The estimates of `cost` do not tell how well such a program keeps both engines at work, so every candidate is predicted.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf

from cnna.compiler.plan.emit import emit
from cnna.compiler.plan.plan import Plan
from cnna.compiler.plan.weight_order import merged_weights
from cnna.compiler.predict.predict import PredictedSpan
from cnna.spec.config import Config
from cnna.spec.errors import ArtifactError

Predicted = tuple[Plan, Sequence[PredictedSpan]]
Predict = Callable[[bytes, float], Sequence[PredictedSpan] | None]


def clocks(predicted: Predicted) -> int:
    """From start until the last command has ended."""
    return max(span.end for span in predicted[1])


def mixed(plans: Iterable[Plan], config: Config, predict: Predict, most: float = inf) -> Iterator[Predicted]:
    """Candidates, with their predicted spans: plans in waves, and these with their weights in another order.

    predict: gives the spans of a program for `config`, or None if it certainly takes more clocks than the limit that it is given.
    most: this limit at first; a candidate that was found lowers it. Plans in waves themselves are predicted in full, because their
    spans say how to order their weights.
    """
    for plan in plans:
        spans = predict(plan.program, inf)
        assert spans is not None, "a prediction without a limit was given up"
        yield plan, spans
        most = min(most, clocks((plan, spans)))
        for found in _merged(plan, spans, config, predict, most):
            yield found
            most = min(most, clocks(found))


def _merged(plan: Plan, spans: Sequence[PredictedSpan], config: Config, predict: Predict, most: float) -> Iterator[Predicted]:
    """The plan with its weights in another order, if there is one."""
    commands = merged_weights(plan.commands, spans, config)
    if commands is None:
        return
    made = replace(plan, commands=commands, program=emit(commands))
    try:
        found = predict(made.program, most)
    except ArtifactError:  # the model of the queues is not exact, so what it doubts is not taken
        return
    if found is not None:
        yield made, found
