"""`cnna compile`: a quantised ONNX model becomes a .cnna for one configuration of the accelerator."""

import argparse
import sys
from pathlib import Path
from typing import Any

from cnna.cli.detector_option import add_detector_option
from cnna.cli.main import Outcome
from cnna.cli.options import CONFIG_HELP, add_batch_option, add_shape_option, given_shapes, warned
from cnna.cli.progress import Progress
from cnna.jobs.compile import compile, cpu_lines, cpu_warning, missing
from cnna.jobs.options.configurations import configuration
from cnna.spec.checks.archive import is_archive
from cnna.spec.manifest import CpuEntry

OUTPUTS = {"output": (".cnna",)}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "model",
        type=Path,
        metavar="Q.onnx",
        help="quantised by cnna quantize, or any model in QDQ or QLinear form; or a .cnna, whose model is compiled anew",
    )
    add_shape_option(parser)
    add_options(parser, again=True)
    parser.add_argument("--choices", type=Path, metavar="F.json", help="choices of the plan, such as cnna explore --choices finds")
    parser.add_argument("--dump", type=Path, metavar="DIR", help="write the graph after every pass")


def add_options(parser: argparse.ArgumentParser, again: bool = False) -> None:
    """Adds the options that say what is compiled for, and that name the artifact. again: a .cnna may say both."""
    own = " (default: that of a .cnna)" if again else ""
    parser.add_argument("--config", required=not again, metavar="C", help=f"{CONFIG_HELP}{own}")
    add_batch_option(parser, again)
    place = "where to write the compiled model" + " (default: a .cnna is replaced)" * again
    parser.add_argument("-o", "--output", type=Path, required=not again, metavar="M.cnna", help=place)
    add_detector_option(parser, ", for cnna.Detector" + own * again)
    parser.add_argument("--no-cpu", action="store_true", help="refuse to use the CPU between layers or for multiplications")


def run(args: argparse.Namespace) -> Outcome:
    """Compiles, writes the artifact, and prints its figures."""
    config = None if args.config is None else configuration(args.config)
    output = args.output or (args.model if is_archive(args.model) else None)
    if config is not None and output is None:
        raise missing(str(args.model), "-o M.cnna")
    with Progress("reading") as progress:
        found = compile(
            args.model,
            config,
            batch=args.batch,
            cpu=not args.no_cpu,
            shapes=given_shapes(args),
            detector=args.detector,
            output=output,
            dump=args.dump,
            choices=args.choices,
            progress=progress.step,
            warn=warned,
        )
    print(found)
    if found.on_cpu:
        print(f"cnna: {found.on_cpu}", file=sys.stderr)
    return Outcome(found.figures(), written=(args.dump,) if args.dump else ())


def say_cpu(figures: dict[str, Any], cpu: list[CpuEntry]) -> None:
    """Says what runs on the CPU; on standard error too if it multiplies there, which the user may not expect."""
    print("\n".join(cpu_lines(figures)))
    if line := cpu_warning(figures):
        print(f"cnna: {line}", file=sys.stderr)
