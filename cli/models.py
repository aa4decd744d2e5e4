"""`cnna models`: lists models to try; `cnna models NAME -o M.onnx` writes one, `--calib`, `--test` and `--train` data for it."""

import argparse
from pathlib import Path

from cnna.cli.main import Outcome
from cnna.host.samples.arrays import Arrays, write_arrays
from cnna.spec.errors import UserError
from cnna.spec.files import write_bytes

OUTPUTS = {"output": (".onnx",), "calib": (".npz",), "test": (".npz",), "train": (".npz",)}
PICTURES = 8  # how many --calib and --test write for an untrained graph: 0.6 MB each


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="the model to write (default: list them)")
    parser.add_argument("-o", "--output", type=Path, metavar="M.onnx", help="where to write the model")
    parser.add_argument("--calib", type=Path, metavar="X.npz", help="also write images for calibration")
    parser.add_argument("--test", type=Path, metavar="X.npz", help="also write other images, with their classes if they are known")
    parser.add_argument("--train", type=Path, metavar="X.npz", help="also write the images that the digits network was trained on")
    parser.add_argument(
        "--count", type=int, metavar="N", help=f"how many images --calib and --test write (default: all digits, else {PICTURES})"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of random weights and images (default: 1)")


def run(args: argparse.Namespace) -> Outcome:
    """Lists the models, or writes one."""
    from cnna.compiler.zoo import catalogue

    if args.name is None:
        if args.output or args.calib or args.test or args.train:
            raise UserError("cnna models: name the model to write (without a name it lists them)")
        return _list()
    entry = catalogue.entry(args.name)
    if args.seed < 0:
        raise UserError(f"--seed {args.seed}: must be at least 0")
    if args.count is not None and not (args.calib or args.test):
        raise UserError(f"--count {args.count}: says how many images --calib and --test write; give one of them")
    if args.count is not None and args.count < 1:
        raise UserError(f"--count {args.count}: must be at least 1")
    parts = [(path, part) for path, part in ((args.calib, "calibration"), (args.test, "test")) if path]
    if args.train and entry.name != "digits":
        raise UserError(f"--train {args.train}: there is nothing that '{entry.name}' was trained on; leave it out")
    images = [_data(entry.name, part, args.seed, args.count) for _, part in parts]
    if args.output:
        write_bytes(args.output, catalogue.build(entry, args.seed).SerializeToString())
    if args.train:
        write_arrays(args.train, _data(entry.name, "train", args.seed, None))
    for (path, _), arrays in zip(parts, images, strict=True):
        write_arrays(path, arrays)
    written = [str(path) for path in (args.output, args.calib, args.test, args.train) if path]
    print(f"{entry.name}: wrote {', '.join(written)}" if written else f"{entry.name}: {entry.about}")
    return Outcome({"name": entry.name, "trained": entry.trained, "written": written})


def _list() -> Outcome:
    from cnna.compiler.zoo import catalogue

    figures = []
    for entry in catalogue.entries():
        model = entry.graph()
        sizes = {"parameters": catalogue.parameters(model), "macs": catalogue.macs(model)}
        figures.append({"name": entry.name, **sizes, "trained": entry.trained, "about": entry.about})
        print(f"{entry.name:18} {sizes['parameters']:>11,} parameters {sizes['macs'] / 1e9:>7.3f} GMAC  {entry.about}")
    print("cnna models NAME -o M.onnx writes one")
    return Outcome({"models": figures})


def _data(name: str, part: str, seed: int, count: int | None) -> Arrays:
    """Calibration or test images of a model; those of the digits have their classes. UserError: there are fewer than `count`."""
    from cnna.compiler.zoo import catalogue
    from cnna.compiler.zoo.digits import data

    if name != "digits":
        return {"x": catalogue.pictures(catalogue.entry(name), count or PICTURES, seed + (part == "test"))}
    split = getattr(data.load(), part)
    if count and count > len(split.images):
        raise UserError(f"--count {count}: there are {len(split.images)} images of digits for {part}")
    return {"x": split.images[:count], "y": split.classes[:count]}
