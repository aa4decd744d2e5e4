"""Plans in which bands of several layers are mixed, and in which weights come in another order.

The estimates of `cost` do not tell how well such a program keeps both engines at work, so every candidate is predicted.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from cnna.compiler.choose.search import in_waves, unlike
from cnna.compiler.plan.emit import emit
from cnna.compiler.plan.plan import Plan, Planner
from cnna.compiler.plan.weight_order import merged_weights
from cnna.compiler.predict.predict import PredictedSpan
from cnna.spec.config import Config
from cnna.spec.errors import ArtifactError

Predicted = tuple[Plan, Sequence[PredictedSpan]]
Predict = Callable[[bytes], Sequence[PredictedSpan]]


def clocks(predicted: Predicted) -> int:
    """From start until the last command has ended."""
    return max(span.end for span in predicted[1])


def mixed(planner: Planner, cut: int, predict: Predict) -> Iterator[Predicted]:
    """Candidates, with their predicted spans. cut: as of `in_waves`. predict: gives the spans of a program for `planner.config`."""
    for plan in unlike(in_waves(planner, cut)):
        found = plan, predict(plan.program)
        yield found
        yield from _merged(*found, planner.config, predict)


def _merged(plan: Plan, spans: Sequence[PredictedSpan], config: Config, predict: Predict) -> Iterator[Predicted]:
    """The plan with its weights in another order, if there is one."""
    commands = merged_weights(plan.commands, spans, config)
    if commands is None:
        return
    made = replace(plan, commands=commands, program=emit(commands))
    try:
        yield made, predict(made.program)
    except ArtifactError:  # the model of the queues is not exact, so what it doubts is not taken
        return
