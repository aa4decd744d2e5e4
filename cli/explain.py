"""`cnna explain`: what will happen to each node of a model, before it is quantised and compiled."""

import argparse
from pathlib import Path

from cnna.cli.detector_option import add_detector_option
from cnna.cli.main import PAGES, Outcome
from cnna.cli.options import CONFIG_HELP, add_batch_option, add_shape_option, given_shapes, warned
from cnna.cli.progress import Progress
from cnna.jobs.explain import DEFAULT, explain
from cnna.jobs.options.configurations import configuration
from cnna.spec.command_line import BAD_INPUT

OUTPUTS = {"html": PAGES}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("model", type=Path, metavar="M.onnx", help="float or quantised")
    parser.add_argument("--config", metavar="C", help=f"{CONFIG_HELP} (default: {DEFAULT})")
    add_batch_option(parser)
    add_shape_option(parser)
    add_detector_option(parser, ", or say which structure is missing")
    parser.add_argument("--html", type=Path, metavar="F", help="write a page with the graph drawn, coloured by pieces")


def run(args: argparse.Namespace) -> Outcome:
    """Explains the model. Nodes that cannot run are rows like the others, but the exit code says that `cnna compile` refuses it."""
    config = None if args.config is None else configuration(args.config)
    with Progress("load") as progress:
        found = explain(
            args.model,
            config,
            batch=args.batch,
            detector=args.detector,
            shapes=given_shapes(args),
            progress=progress.step,
            warn=warned,
        )
    print(found)
    if args.html:
        found.save(args.html)
    return Outcome(found.figures(), BAD_INPUT if found.refused else 0, written=(args.html,) if args.html else ())
