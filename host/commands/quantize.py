"""`cnna quantize`: a float ONNX model and images to calibrate with become an int8 model, written as standard QDQ."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from cnna.host import preprocess
from cnna.host.arrays import Arrays, read_arrays
from cnna.host.cli import Outcome
from cnna.host.errors import UserError
from cnna.host.files import check_writable, write_bytes

METHODS = ("minmax", "percentile", "mse")


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("model", type=Path, metavar="M.onnx", help="float32")
    parser.add_argument("--calib", type=Path, required=True, metavar="X", help=".npy or .npz of typical inputs; 100 are enough")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="Q.onnx")
    parser.add_argument("--method", choices=METHODS, default="minmax", help="how ranges are picked (default: minmax)")
    group = parser.add_argument_group("preprocessing of uint8 pictures, stored in the model: (x * scale - mean) / std")
    group.add_argument("--scale", type=float, metavar="S", help="default: 1")
    group.add_argument("--mean", type=float, nargs="+", metavar="M", help="one value, or one a channel (default: 0)")
    group.add_argument("--std", type=float, nargs="+", metavar="D", help="one value, or one a channel (default: 1)")


def run(args: argparse.Namespace) -> Outcome:
    """Quantises and writes."""
    check_writable(args.output)
    from cnna.compiler.onnx_import import input_shapes, load_model
    from cnna.compiler.quantise import quantise

    model = load_model(args.model)
    shapes = input_shapes(model)
    stored = _preprocess(args, shapes)
    images = read_arrays(args.calib, shapes, allow_uint8=stored is not None)
    quantised = quantise(model, _floats(images, stored), method=args.method)
    if stored:
        preprocess.store(quantised, stored)
    write_bytes(args.output, quantised.SerializeToString())
    count = len(next(iter(images.values())))
    print(f"{args.output}: quantised with {count} samples ({args.method})")
    return Outcome({"output": str(args.output), "method": args.method, "samples": count, "preprocess": stored})


def _preprocess(args: argparse.Namespace, shapes: dict[str, list[int]]) -> preprocess.Preprocess | None:
    """What uint8 pictures will go through; None where no option says so. UserError: the model has several inputs."""
    if args.scale is None and args.mean is None and args.std is None:
        return None
    if len(shapes) != 1:
        raise UserError(f"{args.model}: --scale, --mean and --std are for models of one input; it has {', '.join(shapes)}")
    channels = next(iter(shapes.values()))[0]
    return preprocess.make(1.0 if args.scale is None else args.scale, args.mean, args.std, channels)


def _floats(images: Arrays, stored: preprocess.Preprocess | None) -> dict[str, Any]:
    """uint8 pictures through the preprocessing; floats are preprocessed already."""
    return {
        name: preprocess.apply(array, stored) if stored and array.dtype == np.uint8 else array for name, array in images.items()
    }
