"""`cnna compare`: two runs, reports or configurations side by side, layer by layer, or two evaluations, figure by figure."""

import argparse
from pathlib import Path
from typing import Any

from cnna.cli.main import PAGES, Outcome
from cnna.cli.options import add_library_option
from cnna.jobs.compare import compare
from cnna.spec.errors import DataError
from cnna.spec.files import read_bytes, write_text

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

    files = [read(read_bytes(path), str(path)) for path in (args.first, args.second)]
    if any(map(is_evaluation, files)):
        return _evaluations(args, files)
    found = compare(args.first, args.second)
    print(found)
    if args.html:
        found.save(args.html, args.cache)
    return Outcome(found.figures(), written=(args.html,) if args.html else ())


def _evaluations(args: argparse.Namespace, read: list[dict[str, Any]]) -> Outcome:
    """Prints two evaluations. DataError: only one file is of an evaluation."""
    from cnna.evaluate import compare as evaluations

    paths = (args.first, args.second)
    for path, one in zip(paths, read, strict=True):
        if not evaluations.is_evaluation(one):
            raise DataError(
                f"{path}: not what `cnna eval --json` writes, as the other file is; an evaluation compares with another"
            )
    found = evaluations.compared(*(evaluations.side(one, str(path)) for one, path in zip(read, paths, strict=True)))
    print(evaluations.text(found))
    if args.html:
        write_text(args.html, evaluations.html(found))
    return Outcome(found, written=(args.html,) if args.html else ())
