"""`cnna quantize`: turns a float ONNX model, with images for calibration, into an int8 model in standard QDQ form."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cnna.cli import examined
from cnna.cli.main import Outcome
from cnna.cli.options import add_shape_option, load_shaped
from cnna.cli.picture_options import (
    add_picture_options,
    check_channels,
    given_preprocess,
    say_preparation,
)
from cnna.cli.progress import counter
from cnna.host.samples.arrays import Arrays
from cnna.host.samples.given import beside, read_samples
from cnna.spec.counts import counted, many
from cnna.spec.errors import UserError, about_model
from cnna.spec.files import write_bytes
from cnna.spec.samples.preprocess import Preprocess, from_entry

if TYPE_CHECKING:
    from onnx import ModelProto

    from cnna.compiler.quantise.quantise import Calibrated

OUTPUTS = {"output": (".onnx",), "report": ()}
METHODS = ("minmax", "percentile", "mse")
EFFORTS = (0, 1, 2)
FC_BITS = ("8", "4", "auto")  # of the weights of fully connected layers
MOST_LOST = 1  # point of agreement with float that `auto` may lose


@dataclass(eq=False)
class Given:
    """What the options name: the model, the samples for its inputs, and what uint8 pictures go through.

    graph: of `cnna.compiler.quantise.quantise.float_graph`. Neither the model nor, once it has been taken, the graph is kept: that
    saves the memory of their weights. prepared: figures of what was done to pictures.
    """

    graph: Any
    images: Arrays
    preprocess: Preprocess | None
    prepared: dict[str, Any]
    warnings: tuple[str, ...] = ()

    def taken(self) -> Any:
        """The graph, for one caller."""
        graph, self.graph = self.graph, None
        return graph


@dataclass(frozen=True, eq=False)
class QuantisationRun:
    """A model that was quantised as the options say. report: a `cnna.compiler.quantise.quantise.Report`. prepared: of `Given`."""

    images: Arrays
    model: "ModelProto"
    report: Any
    prepared: dict[str, Any]

    def figures(self) -> dict[str, Any]:
        """The figures for `--json`."""
        report = self.report
        return {
            "method": report.method,
            "effort": report.effort,
            "samples": report.samples,
            "floating": list(report.floating),
            "four_bits": list(report.coded),
            "warnings": list(report.warnings),
            "tensors": {
                name: {"scale": quant.scale, "zero": quant.zero, "low": report.ranges[name][0], "high": report.ranges[name][1]}
                for name, quant in report.quants.items()
            },
            **self.prepared,
        }


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_options(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="Q.onnx", help="where to write the int8 model")
    examined.add_options(parser)


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


def run(args: argparse.Namespace) -> Outcome:
    """Quantises the model, writes it, and prints what was done. With a report it also measures what that costs."""
    examined.check(args)
    measured = None
    if examined.wanted(args):
        found = given(args)
        model, report, measured = examined.run(args, found.images, partial(calibration, args, found))
        made = QuantisationRun(found.images, model, report, found.prepared)
    else:
        made = quantised(args)
    report = made.report
    write_bytes(args.output, made.model.SerializeToString())
    print(f"{args.output}: {many(len(report.quants), 'tensor')} quantised with {many(report.samples, 'sample')} ({report.how})")
    if report.coded:
        print(f"weights of 4 bits: {counted(report.coded)}")
    if report.floating:
        print(f"stays float, for the CPU: {counted(report.floating)}")
    warn(report)
    figures = {"output": str(args.output), **made.figures()}
    if measured is None:
        return Outcome(figures)
    measured.write(args)
    return Outcome(figures | measured.search, measured.exit_code, tuple(args.report))


def warn(report: Any) -> None:
    """Prints to standard error what the user should look at."""
    for line in report.warnings:
        print(f"cnna: warning: {line}", file=sys.stderr)


def quantised(args: argparse.Namespace) -> QuantisationRun:
    """Reads the model and the images, and quantises. UserError: they cannot be read, do not fit, or do not run."""
    found = given(args)
    with about_model(args.model):
        calibrated = calibration(args, found, found.images)
        result, report = calibrated.quantised(refining=counter("refining"))
    return QuantisationRun(found.images, result, report, found.prepared)


def given(args: argparse.Namespace) -> Given:
    """Reads the model and the images. UserError: they cannot be read, or do not fit."""
    given_preprocess(args)  # a mistake in the options is reported before the model is read
    from cnna.compiler.quantise.calibrate import check_samples
    from cnna.compiler.quantise.prepare import rewriting_warnings
    from cnna.compiler.quantise.quantise import float_graph

    with about_model(args.model):
        model = load_shaped(args.model, args)
        graph = float_graph(model)
        wanted = {name: graph.tensors[name].shape[1:] for name in graph.inputs}
        table = _table(args, model.proto)
        preprocess = _preprocess(args, table, wanted)
        images = read_samples(args.calib, wanted, graph.types, table)
        check_samples(graph, images, preprocess)
        prepared = say_preparation(args.calib, wanted, graph.types, table)
        return Given(graph, images, preprocess, prepared, rewriting_warnings(model.proto, graph, images, preprocess))


def calibration(args: argparse.Namespace, found: Given, images: Arrays) -> "Calibrated":
    """The model, calibrated with some of the images as the options say."""
    from cnna.compiler.quantise.fc_bits import coded, with_four_bits
    from cnna.compiler.quantise.quantise import calibrated

    progress = counter("calibrating")
    given = calibrated(found.taken(), images, args.method, found.preprocess, progress=progress, effort=args.effort)
    given = replace(given, warnings=(*found.warnings, *given.warnings))
    if args.fc_bits == FC_BITS[0]:
        return given
    if args.fc_bits == "auto":
        return coded(given, images, MOST_LOST, counter, examined.metrics_of(args, given.graph.outputs))
    return with_four_bits(given)


def _table(args: argparse.Namespace, model: Any) -> dict[str, Any]:
    """How pictures become the input: by the options, else by the file beside the model, else by the model's metadata."""
    from cnna.compiler.frontend.preprocess import entries

    return {**entries(model), **beside(args.model), **given_preprocess(args)}


def _preprocess(args: argparse.Namespace, table: Mapping[str, Any], wanted: Mapping[str, Sequence[int]]) -> Preprocess | None:
    """What uint8 pictures will go through; None if nothing says so. UserError: it does not fit the model's input."""
    if not table:
        return None
    if len(wanted) != 1:
        raise UserError(f"{args.model}: preprocessing (--scale, ...) is for models of one input; it has {', '.join(wanted)}")
    how = from_entry(table, str(args.model))
    check_channels(how, wanted, str(args.model), given_preprocess(args))
    return how
