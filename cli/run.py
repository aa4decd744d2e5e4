"""`cnna run`: runs a .cnna on the simulated RTL, the emulator, the reference or a board, and compares them on demand."""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.cli.main import Outcome
from cnna.cli.metric_options import add_metric_option, given_metrics
from cnna.cli.options import add_cache_option, add_ddr_options, add_road_options, ddr_options, warned
from cnna.cli.picture_options import add_picture_options, given_preprocess
from cnna.cli.progress import Progress
from cnna.host.model.answers import outputs_of
from cnna.jobs.run import Ran
from cnna.jobs.run import run as job
from cnna.spec.artifact import Artifact, load
from cnna.spec.errors import CheckError, DataError, UserError
from cnna.spec.files import read_bytes

OUTPUTS = {"output": (".npz",), "trace": ()}
DEVICES = ("rtl", "emulator", "reference", "pynq")
TOP = 5


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("artifact", type=Path, metavar="M.cnna", help="the compiled model")
    parser.add_argument("--input", type=Path, required=True, metavar="X", help=".npy, .npz or a folder of pictures")
    parser.add_argument(
        "--device", choices=DEVICES, default="rtl", help="what runs the model (default: rtl, under Verilator; pynq: a board)"
    )
    parser.add_argument(
        "--overlay", type=Path, metavar="cnna.bit", help="the overlay that pynq loads, with its .hwh in the same folder (pynq)"
    )
    parser.add_argument("--check", action="store_true", help="compare every tensor with the other executions")
    parser.add_argument("--against", type=Path, metavar="M.onnx", help="compare with the float model, or another, tensor by tensor")
    add_metric_option(parser)
    parser.add_argument("--limit", type=int, metavar="N", help="run only the first N samples")
    parser.add_argument("-o", "--output", type=Path, metavar="Y.npz", help="write the answers, by output name")
    parser.add_argument("--labels", type=Path, metavar="F", help="print the best classes of each sample; F has one name a line")
    parser.add_argument("--top", type=int, default=TOP, metavar="K", help=f"how many classes to print (default: {TOP})")
    parser.add_argument("--trace", type=Path, metavar="F.fst", help="write a waveform (rtl)")
    parser.add_argument("--from-cycle", type=int, metavar="N", help="first clock of the waveform")
    parser.add_argument("--to-cycle", type=int, metavar="N", help="last clock of the waveform")
    add_cache_option(parser)
    add_picture_options(parser, "in the place of what the model stores")
    add_ddr_options(parser)
    add_road_options(parser)


def run(args: argparse.Namespace) -> Outcome:
    """Runs all samples; code 1 if a check finds a difference."""
    if args.top < 1:
        raise UserError(f"--top {args.top}: must be at least 1")
    if (args.device == "pynq") != (args.overlay is not None):
        raise UserError("--overlay names what --device pynq loads: give both, or neither")
    artifact = load(args.artifact)
    labels = _labels(args.labels, artifact) if args.labels else None
    try:
        found = _ran(args, artifact)
    except CheckError as error:
        if error.figures is None:
            raise
        print(error, file=sys.stderr)
        return Outcome({name: value for name, value in error.figures.items() if name != "pictures" or value}, error.exit_code)
    head, *rest = str(found).splitlines()
    if found.on_pictures is not None:
        print(head)
        head, *rest = rest
    if labels:
        _print_top(outputs_of(artifact.manifest)[0].apart(found.answers, found.samples), labels, args.top)
    print("\n".join([head, *rest]))
    if not found.traced:
        first = f"--from-cycle {args.from_cycle}: the run ended before that clock"
        print(f"cnna: {first}; {args.trace} is not written", file=sys.stderr)
    written = tuple(path for path in (args.output, args.trace if found.traced else None) if path)
    return Outcome(found.figures(), 0 if found.traced else UserError.exit_code, written)


def _ran(args: argparse.Namespace, artifact: Artifact) -> Ran:
    """The run that the options describe."""
    with Progress("opening the device") as progress:
        return job(
            artifact,
            args.input,
            device=args.overlay or args.device,
            check=args.check,
            against=args.against,
            metrics=given_metrics(args),
            limit=args.limit,
            preprocess=given_preprocess(args),
            trace=args.trace,
            from_cycle=args.from_cycle,
            to_cycle=args.to_cycle,
            ddr=ddr_options(args),
            cache=args.cache,
            output=args.output,
            progress=progress.step,
            warn=warned,
        )


def _labels(path: Path, artifact: Artifact) -> list[str]:
    """The class names. DataError: the file is not text, or has not one name for each class of the first output."""
    try:
        names = read_bytes(path).decode().splitlines()
    except UnicodeDecodeError:
        raise DataError(f"{path}: not a text file") from None
    output = outputs_of(artifact.manifest)[0]
    if output.elements is None:
        raise DataError(f"--labels {path}: output {output.name} has no fixed number of classes; leave --labels out")
    if len(names) != output.elements:
        raise DataError(f"{path}: has {len(names)} names, but output {output.name} has {output.elements} classes")
    return names


def _print_top(answers: list[NDArray[Any]], labels: list[str], top: int) -> None:
    """Prints a line for each sample: the names of its greatest values, greatest first."""
    for sample, answer in enumerate(answers):
        scores = answer.reshape(-1).astype(np.float64)
        best = np.argsort(-scores, kind="stable")[:top]
        print(f"{sample:4}: " + ", ".join(f"{labels[index]} {scores[index]:.4g}" for index in best))
