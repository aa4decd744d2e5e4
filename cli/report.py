"""`cnna report`: shows a .cnna layer by layer, as predicted and, with a run's figures, as measured."""

import argparse
from pathlib import Path

from cnna.cli.main import PAGES, Outcome
from cnna.cli.options import add_ddr_options, add_library_option, add_road_options, ddr_options
from cnna.jobs.report import PICTURE, report
from cnna.spec.files import write_bytes, write_text

OUTPUTS = {"html": PAGES, "png": (PICTURE,), "trace": ()}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("artifact", type=Path, metavar="M.cnna", help="the compiled model")
    parser.add_argument("--measured", type=Path, metavar="R.json", help="figures that cnna run --json has written")
    parser.add_argument("--html", type=Path, metavar="F", help="write a page")
    parser.add_argument("--png", type=Path, metavar="F", help="write a picture of engines over time, layers' clocks and roofline")
    parser.add_argument(
        "--trace", type=Path, metavar="F", help="write the timeline of engines and host, for chrome://tracing or Perfetto"
    )
    add_library_option(parser)
    add_ddr_options(parser)
    add_road_options(parser, None)


def run(args: argparse.Namespace) -> Outcome:
    """Prints the table and writes the files that were asked for."""
    found = report(args.artifact, args.measured, ddr=ddr_options(args))
    print(found)
    if args.html:
        write_text(args.html, found.page(args.cache))
    if args.png:
        write_bytes(args.png, found.picture())
    if args.trace:
        found.save_trace(args.trace)
    return Outcome(found.figures(), written=tuple(path for path in (args.html, args.png, args.trace) if path))
