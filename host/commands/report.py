"""`cnna report`: a .cnna layer by layer, as predicted and, with a run's figures, as measured."""

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cnna.host.artifact import load
from cnna.host.cli import Outcome
from cnna.host.errors import DataError
from cnna.host.files import read_bytes, write_bytes, write_text

OUTPUTS = ("html", "png", "trace")


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("artifact", type=Path, metavar="M.cnna")
    parser.add_argument("--measured", type=Path, metavar="R.json", help="figures that cnna run --json wrote")
    parser.add_argument("--html", type=Path, metavar="F", help="write a page")
    parser.add_argument("--png", type=Path, metavar="F", help="write a picture of the layers' cycles")
    parser.add_argument("--trace", type=Path, metavar="F", help="write the predicted schedule, for chrome://tracing or Perfetto")


def run(args: argparse.Namespace) -> Outcome:
    """Prints the table and writes what is asked for."""
    artifact = load(args.artifact)
    measured = _measured(args.measured) if args.measured else None
    from cnna.compiler import report

    try:
        figures = report.figures(artifact, measured)
    except DataError as error:  # of the measured figures
        raise DataError(f"{args.measured}: {error}") from None
    print(report.table(figures))
    if args.html:
        from cnna.compiler.report_html import html

        write_text(args.html, html(figures))
    if args.png:
        from cnna.compiler.report_picture import picture

        with TemporaryDirectory() as folder:
            picture(figures, Path(folder) / "report.png")
            write_bytes(args.png, (Path(folder) / "report.png").read_bytes())
    if args.trace:
        from cnna.compiler.report_trace import trace

        write_text(args.trace, json.dumps(trace(artifact, measured)))
    return Outcome(figures)


def _measured(path: Path) -> dict[str, Any]:
    """DataError: it is not JSON, or not an object."""
    try:
        found = json.loads(read_bytes(path))
    except ValueError as error:
        raise DataError(f"{path}: not JSON ({error})") from None
    if not isinstance(found, dict):
        raise DataError(f"{path}: not what `cnna run --json` writes")
    return found
