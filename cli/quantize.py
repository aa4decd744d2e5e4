"""`cnna quantize`: a float ONNX model and images to calibrate with become an int8 model, written as standard QDQ."""

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cnna.cli.arrays import read_arrays
from cnna.cli.main import Outcome, counted
from cnna.cli.options import add_shape_option, counter, given_shapes
from cnna.spec.errors import UserError, about_model
from cnna.spec.files import write_bytes

OUTPUTS = ("output",)
METHODS = ("minmax", "percentile", "mse")


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("model", type=Path, metavar="M.onnx", help="the model, in float32")
    parser.add_argument("--calib", type=Path, required=True, metavar="X", help=".npy or .npz with typical inputs; 100 are enough")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="Q.onnx")
    add_shape_option(parser)
    parser.add_argument("--method", choices=METHODS, default="minmax", help="how ranges are chosen (default: minmax)")
    group = parser.add_argument_group("preprocessing of uint8 pictures, stored in the model: (x * scale - mean) / std")
    group.add_argument("--scale", type=float, metavar="S", help="default: 1")
    group.add_argument("--mean", type=float, nargs="+", metavar="M", help="one value, or one for each channel (default: 0)")
    group.add_argument("--std", type=float, nargs="+", metavar="D", help="one value, or one for each channel (default: 1)")


def run(args: argparse.Namespace) -> Outcome:
    """Quantises and writes."""
    if not all(0 < value < math.inf for value in args.std or ()):
        raise UserError(f"--std {' '.join(f'{value:g}' for value in args.std)}: must be above 0 and finite")
    from cnna.compiler.frontend.onnx_import import load_model, to_graph
    from cnna.compiler.quantise.quantise import quantise

    with about_model(args.model):
        model = load_model(args.model, shapes=given_shapes(args))
        graph = to_graph(model)
        wanted = {name: graph.tensors[name].shape[1:] for name in graph.inputs}
        preprocess = _preprocess(args, wanted)
        images = read_arrays(args.calib, wanted, allow_uint8=preprocess is not None, types=graph.types)
        quantised, report = quantise(model, images, args.method, preprocess, progress=counter("calibrating"))
    write_bytes(args.output, quantised.SerializeToString())
    print(f"{args.output}: {len(report.quants)} tensors quantised with {report.samples} samples ({report.method})")
    if report.floating:
        print(f"stays float, for the CPU: {counted(report.floating)}")
    figures = {
        "output": str(args.output),
        "method": report.method,
        "samples": report.samples,
        "floating": list(report.floating),
        "tensors": {
            name: {"scale": quant.scale, "zero": quant.zero, "low": report.ranges[name][0], "high": report.ranges[name][1]}
            for name, quant in report.quants.items()
        },
    }
    return Outcome(figures)


def _preprocess(args: argparse.Namespace, wanted: Mapping[str, Sequence[int]]) -> Any:
    """What uint8 pictures will go through; None where no option says so. UserError: it does not fit the model's input."""
    if args.scale is None and args.mean is None and args.std is None:
        return None
    from cnna.compiler.frontend.preprocess import Preprocess

    if len(wanted) != 1:
        raise UserError(f"{args.model}: --scale, --mean and --std are for models of one input; it has {', '.join(wanted)}")
    channels = next(iter(wanted.values()))[0]
    for name in ("mean", "std"):
        values = getattr(args, name) or [0.0]
        if len(values) not in (1, channels):
            raise UserError(f"{args.model}: --{name} has {len(values)} values, but the input has {channels} channels")
    return Preprocess(1.0 if args.scale is None else args.scale, tuple(args.mean or [0.0]), tuple(args.std or [1.0]))
