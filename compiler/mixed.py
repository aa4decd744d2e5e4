"""Plans in which bands of several layers are mixed, and in which weights come in another order.

The estimates of `cost` do not tell how well such a program keeps both engines at work, so every candidate is predicted.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from cnna.compiler.lower.kernels import Lowered
from cnna.compiler.plan.emit import emit
from cnna.compiler.plan.plan import Plan, in_waves
from cnna.compiler.plan.weight_order import merged_weights
from cnna.compiler.predict.predict import PredictedSpan
from cnna.spec.config import Config
from cnna.spec.errors import ArtifactError

CLEARLY = 0.96  # of the clocks of the best other plan: what a plan may take at most to replace it

Predicted = tuple[Plan, Sequence[PredictedSpan]]
Predict = Callable[[bytes], Sequence[PredictedSpan]]


def clocks(predicted: Predicted) -> int:
    """From start until the last command has ended."""
    return max(span.end for span in predicted[1])


def mixed(lowered: Lowered, config: Config, name: str, other: Plan, predict: Predict) -> Iterator[Predicted]:
    """Candidates, with their predicted spans. other: the best other plan. predict: `predicted_spans` of a program for `config`.

    Other bands may make the same program. It is a candidate once.
    """
    unlike: dict[bytes, Plan] = {}
    for plan in in_waves(lowered, config, name, other.way.cut):
        unlike.setdefault(plan.program, plan)
    for plan in unlike.values():
        found = plan, predict(plan.program)
        yield found
        yield from _merged(*found, config, predict)


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
