"""`cnna eval`: measures models on a user's data, side by side: accuracy with its standard error, and the samples that changed."""

import argparse
import sys
from pathlib import Path
from typing import Any

from cnna.cli.main import PAGES, Outcome
from cnna.cli.options import add_cache_option, add_shape_option, given_shapes
from cnna.cli.picture_options import add_picture_options, given_preprocess
from cnna.cli.progress import Progress
from cnna.host.board.overlay import open_overlay
from cnna.jobs.eval import eval
from cnna.spec.errors import UserError

OUTPUTS = {"html": PAGES}
DEVICES = ("emulator", "reference", "rtl", "pynq")
FITS, COORDINATES = ("letterbox", "corner", "whole"), ("pixels", "shares")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("models", type=Path, nargs="+", metavar="M", help="models to measure: .cnna, and .onnx, float or quantised")
    parser.add_argument("--data", type=Path, required=True, metavar="D", help="samples and what is right for them (docs/eval.md)")
    parser.add_argument(
        "--device", choices=DEVICES, default=DEVICES[0], help=f"what runs a .cnna (default: {DEVICES[0]}; pynq: a board)"
    )
    parser.add_argument(
        "--overlay", type=Path, metavar="cnna.bit", help="the overlay that pynq loads, with its .hwh beside it (pynq)"
    )
    parser.add_argument("--base", metavar="M", help="the model with which others are compared (default: the first float one)")
    parser.add_argument("--truth", metavar="M", help="with --metric: what model M answers is right, where data have no targets")
    _add_task_options(parser)
    parser.add_argument("--limit", type=int, metavar="N", help="measure N samples: the first ones, or drawn ones")
    parser.add_argument("--seed", type=int, metavar="S", help="draw the samples of --limit with this seed")
    parser.add_argument("--batch", type=int, metavar="N", help="samples that are taken, and kept in the journal, together")
    parser.add_argument("--skip-unreadable", action="store_true", help="leave out pictures that cannot be read, and count them")
    parser.add_argument(
        "--journal", type=Path, metavar="F", help="keep what is measured in F (default: in the cache, until all is done)"
    )
    parser.add_argument("--html", type=Path, metavar="F", help="write a page with the samples that changed, with pictures")
    add_shape_option(parser)
    add_cache_option(parser, "where journals, and simulators of rtl, are kept (default: the user's cache folder)")
    add_picture_options(parser, "in the place of what the models store")


def _add_task_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say how answers are judged."""
    group = parser.add_argument_group("how data are read and answers are judged (docs/eval.md)")
    group.add_argument(
        "--task", metavar="T", help="classification, detection, segmentation, keypoints or embedding (default: what suits the data)"
    )
    group.add_argument("--output", metavar="NAME", help="the output that is judged (default: the first)")
    group.add_argument("--labels", type=Path, metavar="F", help="names of the classes, one a line")
    group.add_argument("--images", type=Path, metavar="DIR", help="pictures of a COCO file (default: its folder, or images there)")
    group.add_argument("--columns", metavar="FILE,LABEL", help="columns of a CSV (default: those called file and label, or alike)")
    group.add_argument("--offset", type=int, metavar="N", help="outputs before the first class: 1 for a background")
    group.add_argument("--top", type=int, metavar="K", help="the K of top-K (default: 5)")
    group.add_argument(
        "--decode", metavar="FORM", help="boxes of a detector's outputs: yolov5, yolov8, yolox, boxes, or FILE.py:NAME"
    )
    group.add_argument("--min-score", type=float, metavar="S", help="keep boxes with this score (default: 0.001)")
    group.add_argument("--overlap", type=float, metavar="O", help="boxes that overlap by more are one object (default: 0.6)")
    group.add_argument("--fit", choices=FITS, help="how a whole picture meets a detector's input (default: letterbox)")
    group.add_argument("--ignored", type=int, metavar="N", help="number of a mask's pixels that do not count (default: 255)")
    group.add_argument(
        "--coordinates", choices=COORDINATES, help="what an output of points counts in (default: pixels of the input)"
    )
    group.add_argument(
        "--metric", metavar="FILE.py:NAME", help="judge by a function of your own: NAME(answers, target) gives numbers"
    )


def run(args: argparse.Namespace) -> Outcome:
    """Measures, prints a table, and writes the page."""
    if (args.device == "pynq") != (args.overlay is not None):
        raise UserError("--overlay names what --device pynq loads: give both, or neither")
    if args.html:
        from cnna.evaluate.page import check_installed

        check_installed()
    with Progress("opening the models") as progress:
        found = eval(
            args.models,
            args.data,
            **_task_options(args),
            device=open_overlay(args.overlay) if args.overlay else args.device,
            device_options=_device_options(args),
            base=args.base,
            truth=args.truth,
            preprocess=given_preprocess(args),
            shapes=given_shapes(args),
            limit=args.limit,
            seed=args.seed,
            batch=args.batch,
            skip_unreadable=args.skip_unreadable,
            journal=args.journal,
            cache=args.cache,
            progress=progress.step,
            warn=lambda line: print(f"cnna: {line}", file=sys.stderr),
        )
    print(found)
    if args.html:
        found.save(args.html)
    return Outcome(found.figures(), written=tuple(path for path in (args.html, args.journal) if path))


def _task_options(args: argparse.Namespace) -> dict[str, Any]:
    """How data are read and answers are judged."""
    names = ("task", "labels", "metric", "images", "fit", "top", "offset", "decode", "min_score", "overlap", "ignored")
    options = {name: getattr(args, name) for name in names}
    return {**options, "judged": args.output, "coordinates": args.coordinates, "columns": args.columns}


def _device_options(args: argparse.Namespace) -> dict[str, Any]:
    """Options of the device."""
    if args.device != "rtl" or args.cache is None:
        return {}
    from cnna.sim.rtl.cache import private

    return {"cache": private(args.cache)}
