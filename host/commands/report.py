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
    parser.add_argument("--png", type=Path, metavar="F", help="write a picture of the layers' cycles and their roofline")
    parser.add_argument("--trace", type=Path, metavar="F", help="write the engines' timeline, for chrome://tracing or Perfetto")


def run(args: argparse.Namespace) -> Outcome:
    """Prints the table and writes what is asked for."""
    artifact = load(args.artifact)
    measured = _measured(args.measured) if args.measured else None
    from cnna.compiler import report
    from cnna.compiler.report_table import table

    try:
        figures = report.figures(artifact, measured)
    except DataError as error:  # of the measured figures
        raise DataError(f"{args.measured}: {error}") from None
    print(table(figures))
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
    """DataError: it is not JSON, or a figure in it is not of the kind that `cnna run --json` writes."""
    try:
        found = json.loads(read_bytes(path))
    except ValueError as error:
        raise DataError(f"{path}: not JSON ({error})") from None
    if not isinstance(found, dict):
        raise DataError(f"{path}: not what `cnna run --json` writes")
    _check_kinds(path, "", found, _KINDS)
    layers = found.get("layers", [])
    for index, layer in enumerate(layers):
        if not isinstance(layer, dict):
            raise DataError(f"{path}: layers[{index}] is {json.dumps(layer)[:40]}, not what `cnna run --json` writes")
        _check_kinds(path, f"layers[{index}].", layer, _LAYER_KINDS)
    return found


def _check_kinds(path: Path, where: str, found: Mapping[str, Any], kinds: Mapping[str, tuple[type, ...]]) -> None:
    """DataError: a figure that is there and of another kind, or a negative number. What is missing, `compiler.report` says."""
    for name, kind in kinds.items():
        value = found.get(name)
        inner = list(value.values()) if name == "stalls" and isinstance(value, dict) else [value]
        right = value is None and type(None) in kind
        right |= isinstance(value, kind) and all(_is_number(number) for number in inner if name not in _TEXTS)
        if name in found and not right:
            raise DataError(f"{path}: {where}{name} is {json.dumps(value)[:40]}, not what `cnna run --json` writes")
