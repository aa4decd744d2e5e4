"""`cnna compare`: two runs, reports or configurations side by side, layer by layer, or two evaluations, figure by figure."""

import argparse
from pathlib import Path

from cnna.cli.main import PAGES, Outcome
from cnna.cli.options import add_library_option
from cnna.jobs.compare import compare, compare_evaluations
from cnna.spec.files import read_bytes

OUTPUTS = {"html": PAGES}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    about = "figures that cnna run --json, cnna report --json or cnna eval --json has written"
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

    paths = (args.first, args.second)
    if any(is_evaluation(read(read_bytes(path), str(path))) for path in paths):
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
