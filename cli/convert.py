"""`cnna convert`: turns a float ONNX model into a .cnna in one step: quantises, compiles, compares with float on the emulator."""

import argparse
import sys

from cnna.cli import compile, quantize
from cnna.cli.main import Outcome
from cnna.cli.metric_options import add_metric_option, given_metrics
from cnna.cli.options import configuration, warned
from cnna.cli.progress import Progress
from cnna.jobs.convert import LIMIT, convert
from cnna.spec.errors import UserError

OUTPUTS = {"output": (".cnna",)}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command: those of quantize and compile, and how many samples are compared."""
    quantize.add_options(parser)
    compile.add_options(parser)
    add_metric_option(parser)
    parser.add_argument("--limit", type=int, default=LIMIT, metavar="N", help=f"compare N samples with float (default: {LIMIT})")


def run(args: argparse.Namespace) -> Outcome:
    """Does all three steps, and prints what was done."""
    if args.limit < 1:
        raise UserError(f"--limit {args.limit}: must be at least 1")
    config, metrics = configuration(args.config), given_metrics(args)
    with Progress("reading") as progress:
        found = convert(
            args.model,
            args.calib,
            config,
            **quantize.given_options(args),
            batch=args.batch,
            cpu=not args.no_cpu,
            detector=args.detector,
            metrics=metrics,
            limit=args.limit,
            output=args.output,
            progress=progress.step,
            warn=warned,
        )
    print(found)
    for line in (found.on_cpu, found.advice):
        if line:
            print(f"cnna: {line}", file=sys.stderr)
    return Outcome(found.figures())
