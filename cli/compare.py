"""`cnna compare`: two runs, reports or configurations side by side, layer by layer."""

import argparse
from pathlib import Path

from cnna.cli.main import PAGES, Outcome
from cnna.cli.options import add_library_option, chart_library
from cnna.spec.files import read_bytes, write_text

OUTPUTS = {"html": PAGES}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    about = "figures that cnna run --json or cnna report --json has written"
    parser.add_argument("first", type=Path, metavar="A.json", help=about)
    parser.add_argument("second", type=Path, metavar="B.json", help="the same of another run, configuration or model")
    parser.add_argument("--html", type=Path, metavar="F", help="write a page with a bar for each layer's difference")
    add_library_option(parser)


def run(args: argparse.Namespace) -> Outcome:
    """Prints both, in clocks an image, and the layers that differ most first."""
    from cnna.compiler.report import compare

    sides = [compare.side(compare.read(read_bytes(path), str(path)), str(path)) for path in (args.first, args.second)]
    found = compare.compared(*sides)
    print(compare.text(found))
    if args.html:
        write_text(args.html, compare.html(found, chart_library(args.cache)))
    return Outcome(found, written=(args.html,) if args.html else ())
