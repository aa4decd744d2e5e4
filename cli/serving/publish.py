"""`cnna publish`: compiles a quantised model for the batches that a server wants, and adds it to a repository as a new version."""

import argparse
from pathlib import Path

from cnna.cli.detector_option import add_detector_option
from cnna.cli.main import Outcome
from cnna.cli.options import CONFIG_HELP, add_shape_option, configuration, given_shapes, warned
from cnna.cli.picture_options import add_picture_options, given_preprocess
from cnna.cli.progress import Progress
from cnna.jobs.publish import ADVICE, BATCHES, SAMPLES, publish
from cnna.serve.models import fallback
from cnna.spec.errors import UserError
from cnna.spec.machine import MOST_BATCH

DEFAULT = ",".join(map(str, BATCHES))


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "onnx",
        type=Path,
        metavar="Q.onnx",
        help="quantised by cnna quantize, or any model in QDQ or QLinear form; or a .cnna, whose model is compiled anew",
    )
    parser.add_argument("--repo", type=Path, required=True, metavar="R", help="the repository; it is made if it does not exist")
    parser.add_argument("--model", required=True, metavar="M", help="the model's name there")
    parser.add_argument("--version", metavar="V", help="the version (default: one more than the highest)")
    parser.add_argument("--config", action="append", required=True, metavar="C", help=f"{CONFIG_HELP}; may be repeated")
    parser.add_argument("--batches", default=DEFAULT, metavar="N,...", help=f"the batches to compile (default: {DEFAULT})")
    parser.add_argument(
        "--input", type=Path, metavar="X", help=".npy, .npz or a folder of pictures, for golden answers (default: noise)"
    )
    parser.add_argument("--limit", type=int, default=SAMPLES, metavar="N", help=f"use N samples (default: {SAMPLES})")
    parser.add_argument("--labels", type=Path, metavar="F", help="names of the classes: one a line, or a list in JSON")
    parser.add_argument("--fallback", choices=fallback.NEEDS_FILE, help="keep the model too, for `fallback` in model.yaml")
    add_shape_option(parser)
    add_detector_option(parser, ", so that the version answers boxes, scores and classes (default: that of a .cnna)")
    add_picture_options(parser, "in the place of what the model stores")


def run(args: argparse.Namespace) -> Outcome:
    """Publishes, and prints what was added."""
    with Progress("reading the model") as progress:
        found = publish(
            args.onnx,
            args.repo,
            args.model,
            [configuration(text) for text in args.config],
            version=args.version,
            batches=_batches(args.batches),
            data=args.input,
            limit=args.limit,
            labels=args.labels,
            fallback=args.fallback,
            detector=args.detector,
            preprocess=given_preprocess(args),
            shapes=given_shapes(args),
            progress=progress.step,
            warn=warned,
        )
    print(found)
    return Outcome(found.figures())


def _batches(text: str) -> list[int]:
    """UserError: the text is no list of batches."""
    words = text.split(",")
    if not all(word.isdecimal() and 1 <= int(word[:8]) <= MOST_BATCH for word in words):
        raise UserError(f"--batches {text}: {ADVICE}")
    return list(map(int, words))
