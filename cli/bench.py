"""`cnna bench`: measures models under the load of MLPerf's LoadGen: latency, samples a second and accuracy, in one table."""

import argparse
import sys
from pathlib import Path

from cnna.cli.main import Outcome
from cnna.cli.options import add_cache_option
from cnna.cli.progress import Progress
from cnna.jobs.bench import bench

OUTPUTS = {"png": (".png",)}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    about = "models, configurations, batches, scenarios and devices, in YAML (docs/benchmarks.md)"
    parser.add_argument("matrix", type=Path, metavar="M.yaml", help=about)
    parser.add_argument("--png", type=Path, metavar="F", help="draw the figures, a panel for each scenario")
    parser.add_argument(
        "--journal", type=Path, metavar="F", help="keep the rows that are measured in F (default: in the cache, until all are done)"
    )
    add_cache_option(parser, "where journals, and simulators of rtl, are kept (default: the user's cache folder)")


def run(args: argparse.Namespace) -> Outcome:
    """Measures, prints a table, and draws it."""
    with Progress("reading the matrix") as progress:
        found = bench(
            args.matrix,
            journal=args.journal,
            cache=args.cache,
            progress=progress.step,
            warn=lambda line: print(f"cnna: {line}", file=sys.stderr),
        )
    print(found)
    if args.png:
        found.save(args.png)
    return Outcome(found.figures(), written=tuple(path for path in (args.png, args.journal) if path))
