"""`cnna compare`: two runs, reports or configurations side by side, layer by layer; or two evaluations or benchmarks."""

import argparse
from pathlib import Path

from cnna.cli.main import PAGES, Outcome
from cnna.cli.options import add_library_option
from cnna.jobs.compare import compare, compare_benchmarks, compare_evaluations
from cnna.spec.errors import UserError
from cnna.spec.files import read_bytes

OUTPUTS = {"html": PAGES}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    about = "figures that cnna run, cnna report, cnna eval or cnna bench has written with --json"
    parser.add_argument("first", type=Path, metavar="A.json", help=about)
    parser.add_argument("second", type=Path, metavar="B.json", help="the same of another run, configuration, model or evaluation")
    parser.add_argument(
        "--html", type=Path, metavar="F", help="write a page with a bar for each layer's difference, or the samples that changed"
    )
    add_library_option(parser)


def run(args: argparse.Namespace) -> Outcome:
    """Prints both: runs in clocks an image, the layers that differ most first; evaluations in their figures."""
    from cnna.compiler.report.compare import read
    from cnna.evaluate.compare import is_evaluation
    from cnna.evaluate.speed.compare import is_benchmark

    paths = (args.first, args.second)
    read_both = [read(read_bytes(path), str(path)) for path in paths]
    if any(map(is_benchmark, read_both)):
        if args.html:
            raise UserError("--html: two benchmarks have no page; --json writes their figures")
        benchmarks = compare_benchmarks(*paths)
        print(benchmarks)
        return Outcome(benchmarks.figures())
    if any(map(is_evaluation, read_both)):
        evaluations = compare_evaluations(*paths)
        print(evaluations)
        if args.html:
            evaluations.save(args.html)
        return Outcome(evaluations.figures(), written=(args.html,) if args.html else ())
    found = compare(*paths)
    print(found)
    if args.html:
        found.save(args.html, args.cache)
    return Outcome(found.figures(), written=(args.html,) if args.html else ())
