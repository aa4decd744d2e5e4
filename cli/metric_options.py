"""`--metric`: by what outputs are judged, in every command that gives a verdict on them."""

import argparse
from collections.abc import Collection, Mapping

from cnna.spec.errors import UserError
from cnna.spec.verdicts import METRICS

ALL = ""  # stands for every output


def add_metric_option(parser: argparse.ArgumentParser) -> None:
    """Adds the option."""
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="[OUTPUT:]M",
        help=f"judge outputs by {', '.join(METRICS)}: the class with the greatest score, signal to noise, the cosine of vectors, "
        "or equal elements (default: what suits the output; the verdict says why). May be given for several outputs",
    )


def given_metrics(args: argparse.Namespace) -> dict[str, str]:
    """The metrics by output; ALL is that of the outputs that are not named. UserError: there is no such metric."""
    found = {}
    for text in args.metric:
        output, _, metric = text.rpartition(":")
        if metric not in METRICS:
            raise UserError(f"--metric {text}: '{metric}' is unknown; there are {', '.join(METRICS)}")
        found[output] = metric
    return found


def metric_of(name: str, metrics: Mapping[str, str], outputs: Collection[str]) -> str | None:
    """The metric that the user has chosen for an output. UserError: one is chosen for an output that is not there."""
    if wrong := [output for output in metrics if output != ALL and output not in outputs]:
        raise UserError(f"--metric {wrong[0]}:{metrics[wrong[0]]}: there is no output '{wrong[0]}'; there are {', '.join(outputs)}")
    return metrics.get(name, metrics.get(ALL))
