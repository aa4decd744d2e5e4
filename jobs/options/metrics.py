"""By what outputs are judged, where that is the caller's choice: `--metric` of the commands, `metrics` of the functions."""

from collections.abc import Collection, Mapping
from typing import TypeAlias

from cnna.spec.errors import UserError
from cnna.spec.verdicts import METRICS

Metrics: TypeAlias = str | Mapping[str, str]  # for all outputs, or by output
ALL = ""  # stands for every output


def metrics_given(metrics: Metrics | None) -> dict[str, str]:
    """The metrics by output; ALL is that of the outputs that are not named. UserError: there is no such metric."""
    found = {ALL: metrics} if isinstance(metrics, str) else dict(metrics or {})
    for output, metric in found.items():
        if metric not in METRICS:
            text = f"{output}:{metric}" if output else metric
            raise UserError(f"--metric {text}: '{metric}' is unknown; there are {', '.join(METRICS)}")
    return found


def first_of(metrics: Mapping[str, str]) -> str:
    """The first metric as the command line has it."""
    output, metric = next(iter(metrics.items()))
    return f"{output}:{metric}" if output else metric


def metric_of(name: str, metrics: Mapping[str, str], outputs: Collection[str]) -> str | None:
    """The metric that the user has chosen for an output. UserError: one is chosen for an output that is not there."""
    if wrong := [output for output in metrics if output != ALL and output not in outputs]:
        raise UserError(f"--metric {wrong[0]}:{metrics[wrong[0]]}: there is no output '{wrong[0]}'; there are {', '.join(outputs)}")
    return metrics.get(name, metrics.get(ALL))
