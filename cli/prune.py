"""`cnna prune`: removes channels of a float model, so that it takes fewer clocks of a configuration."""

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from cnna.cli.main import FAILED, Outcome
from cnna.cli.metric_options import add_metric_option, given_metrics
from cnna.cli.options import CONFIG_HELP, add_shape_option, configuration, given_shapes, warned
from cnna.cli.picture_options import add_picture_options, given_preprocess
from cnna.cli.progress import Steps, clear_line
from cnna.host.samples.arrays import CLASSES
from cnna.jobs.prune import DEFAULT, EPOCHS, FIGURES, MOST_POINTS, prune
from cnna.spec.errors import CnnaError, UserError

OUTPUTS = {"output": (".onnx",), "report": ()}
PAGE = ".html"
JOURNAL = ".journal"  # ends the name of the output, for the file that keeps what was measured
CHECKPOINT = ".checkpoint"  # and for the one that keeps the epochs of fine-tuning


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("model", type=Path, metavar="M.onnx", help="the model, in float32")
    parser.add_argument(
        "--calib", type=Path, required=True, metavar="X", help=".npy, .npz or a folder of pictures: typical inputs, 100 do"
    )
    parser.add_argument("--config", type=configuration, default=DEFAULT, metavar="C", help=f"{CONFIG_HELP} (default: {DEFAULT})")
    parser.add_argument(
        "--fewer-clocks", type=_share, required=True, metavar="25%", help="how many of the predicted clocks to save, such as 25%%"
    )
    parser.add_argument(
        "--max-loss",
        type=_points,
        metavar="P",
        help="stop where the int8 network would lose more than P points of top-1 (without labels: of agreement with float; of "
        "outputs without classes: by --metric) against the whole network in int8",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="P.onnx", help="where to write the pruned float model")
    parser.add_argument(
        "--test",
        type=Path,
        metavar="X",
        help="samples to judge on (default: every fourth of --calib, which nothing is solved from)",
    )
    parser.add_argument(
        "--labels",
        type=Path,
        metavar="F",
        help="the right class of each sample that is judged: .npy, .npz (y) or text with one number a line (default: the array "
        f"{CLASSES} beside the samples, if there is one)",
    )
    parser.add_argument(
        "--report",
        action="append",
        type=Path,
        default=[],
        metavar="F",
        help="write what became of each layer, as F.html (a page) or F.json; may be given for both",
    )
    parser.add_argument(
        "--journal", type=Path, metavar="F", help="keep what is measured in F until all is done (default: P.onnx.journal)"
    )
    parser.add_argument(
        "--finetune",
        type=Path,
        metavar="X",
        help="train the pruned network on these samples towards the whole one's answers, and towards the classes beside them, if "
        "there are any (needs torch; --max-loss is of the network before it)",
    )
    parser.add_argument(
        "--epochs", type=int, metavar="N", help=f"how often --finetune goes through its samples (default: {EPOCHS})"
    )
    parser.add_argument(
        "--checkpoint", type=Path, metavar="F", help=f"keep the epochs in F until all is done (default: P.onnx{CHECKPOINT})"
    )
    add_metric_option(parser)
    add_shape_option(parser)
    add_picture_options(parser, "as for cnna quantize")


def _share(text: str) -> float:
    try:
        found = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        found = math.nan
    if not 0 < found < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share above 0% and below 100%; 25% is")
    return found


def _points(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found <= MOST_POINTS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of points, 0 to {MOST_POINTS}; 2 is")
    return found


def run(args: argparse.Namespace) -> Outcome:
    """Prunes the model, writes it, and prints what was done. What was measured is kept until then."""
    for path in args.report:
        if path.suffix.lower() not in (PAGE, FIGURES):
            raise UserError(f"--report {path}: its name must end in {PAGE} or {FIGURES}, which says what is written")
    if args.finetune is None and (args.epochs is not None or args.checkpoint is not None):
        raise UserError("--epochs and --checkpoint are of --finetune; name the samples to train on with it")
    journal = args.journal or Path(f"{args.output}{JOURNAL}")
    checkpoint = args.checkpoint or Path(f"{args.output}{CHECKPOINT}")
    before = {path: _written(path) for path in (journal, checkpoint)}
    try:
        with Steps("reading") as steps:
            found = prune(
                args.model,
                args.calib,
                args.config,
                fewer_clocks=args.fewer_clocks,
                max_loss=args.max_loss,
                test=args.test,
                labels=args.labels,
                metrics=given_metrics(args),
                preprocess=given_preprocess(args),
                shapes=given_shapes(args),
                journal=journal,
                finetune=args.finetune,
                epochs=EPOCHS if args.epochs is None else args.epochs,
                checkpoint=None if args.finetune is None else checkpoint,
                output=args.output,
                reports=args.report,
                progress=steps.step,
                warn=warned,
            )
    except (KeyboardInterrupt, SystemExit):
        _say_kept([path for path in before if path.exists()])
        raise
    except CnnaError:
        _say_kept([path for path, time in before.items() if _written(path) != time])
        raise
    print(found)
    return Outcome(found.figures(), 0 if found.met else FAILED, tuple(args.report))


def _written(path: Path) -> int | None:
    """When a file was written; None: there is none."""
    return path.stat().st_mtime_ns if path.exists() else None


def _say_kept(paths: Sequence[Path]) -> None:
    if paths:
        clear_line()
        keeps = "keep" if len(paths) > 1 else "keeps"
        print(f"cnna: {' and '.join(map(str, paths))} {keeps} what was measured; the same command goes on from it", file=sys.stderr)
