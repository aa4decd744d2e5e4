"""`--metric`: by what outputs are judged, in every command that gives a verdict on them."""

import argparse

from cnna.jobs.options.metrics import metrics_given
from cnna.spec.verdicts import METRICS


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
    """The metrics by output; `ALL` is that of the outputs that are not named. UserError: there is no such metric."""
    found = {}
    for text in args.metric:
        output, _, metric = text.rpartition(":")
        found[output] = metric
    return metrics_given(found)
