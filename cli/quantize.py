"""`cnna quantize`: turns a float ONNX model, with images for calibration, into an int8 model in standard QDQ form."""

import argparse
import math
import sys
from pathlib import Path
from typing import Any

from cnna.cli.main import FAILED, Outcome
from cnna.cli.metric_options import add_metric_option, given_metrics
from cnna.cli.options import CONFIG_HELP, add_shape_option, given_shapes, warned
from cnna.cli.picture_options import add_picture_options, given_preprocess
from cnna.cli.progress import Progress
from cnna.host.samples.arrays import CLASSES
from cnna.jobs.examine import DEFAULT, MOST_POINTS
from cnna.jobs.quantize import EFFORTS, FC_BITS, FIGURES, METHODS, MOST_LOST, quantize
from cnna.spec.errors import UserError

OUTPUTS = {"output": (".onnx",), "report": ()}
PAGE = ".html"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_options(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="Q.onnx", help="where to write the int8 model")
    _add_examination(parser)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the model, and the options that say how it is quantised."""
    parser.add_argument("model", type=Path, metavar="M.onnx", help="the model, in float32")
    parser.add_argument(
        "--calib", type=Path, required=True, metavar="X", help=".npy, .npz or a folder of pictures: typical inputs, 100 do"
    )
    add_shape_option(parser)
    parser.add_argument("--method", choices=METHODS, default="minmax", help="how ranges are chosen (default: minmax)")
    parser.add_argument(
        "--effort",
        type=int,
        choices=EFFORTS,
        default=0,
        help="0 (default): the quickest; 1: correct biases layer by layer; 2: learn how each weight is rounded too. No labels are "
        "needed; 2 takes at most ten times as long as 0",
    )
    parser.add_argument(
        "--fc-bits",
        choices=FC_BITS,
        default=FC_BITS[0],
        help="bits of a weight of fully connected layers: 8 (default); 4: 16 values a channel, which halves the time of "
        f"these layers with --config ...,codebook=1; auto: 4 where agreement with float falls by no more than {MOST_LOST} point",
    )
    add_picture_options(parser, "stored in the model")


def _add_examination(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say what is measured."""
    parser.add_argument(
        "--report",
        action="append",
        type=Path,
        default=[],
        metavar="F",
        help="write what quantisation costs, layer by layer, as F.html (a page) or F.json; may be given for both",
    )
    parser.add_argument(
        "--search",
        type=_points,
        metavar="LOSS",
        help="keep the worst layers in float, on the CPU, until no more than LOSS points of top-1 (without labels: of agreement "
        "with float; of outputs without classes: by --metric) are lost on a third of the samples, which calibration does not see",
    )
    add_metric_option(parser)
    parser.add_argument("--config", metavar="C", help=f"what --search predicts the speed for (default: {DEFAULT}): {CONFIG_HELP}")
    parser.add_argument(
        "--labels",
        type=Path,
        metavar="F",
        help="the right class of each sample, for --report and --search: .npy, .npz (y) or text with one number a line (default: "
        f"the array {CLASSES} beside the samples, if there is one)",
    )


def _points(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found <= MOST_POINTS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of points, 0 to {MOST_POINTS}; 0.5 is")
    return found


def run(args: argparse.Namespace) -> Outcome:
    """Quantises the model, writes it, and prints what was done. With a report it also measures what that costs."""
    for path in args.report:
        if path.suffix.lower() not in (PAGE, FIGURES):
            raise UserError(f"--report {path}: its name must end in {PAGE} or {FIGURES}, which says what is written")
    with Progress("reading") as progress:
        found = quantize(
            args.model,
            args.calib,
            **given_options(args),
            examine=bool(args.report),
            search=args.search,
            labels=args.labels,
            metrics=given_metrics(args),
            config=args.config,
            output=args.output,
            progress=progress.step,
            warn=warned,
        )
    for line in found.on_search:
        print(f"cnna: {line}", file=sys.stderr)
    print(found)
    for path in args.report:
        found.save_report(path)
    missed = found.search is not None and not found.search["met"]
    return Outcome(found.figures(), FAILED if missed else 0, tuple(args.report))


def given_options(args: argparse.Namespace) -> dict[str, Any]:
    """How the model is quantised, as arguments of `cnna.quantize`."""
    return {
        "method": args.method,
        "effort": args.effort,
        "fc_bits": args.fc_bits,
        "preprocess": given_preprocess(args),
        "shapes": given_shapes(args),
    }
