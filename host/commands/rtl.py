"""`cnna rtl`: the accelerator's Verilog, or one block's, with a description of its registers."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from cnna.host.cli import Outcome
from cnna.host.configuration import HELP, configuration
from cnna.host.errors import UserError
from cnna.host.files import make_folder, write_bytes
from cnna.hw.config import ConfigError


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--config", default="tiny", metavar="C", help=f"{HELP} (default: tiny)")
    parser.add_argument("--module", metavar="NAME", help="write this block alone (default: the whole accelerator)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the files")


def run(args: argparse.Namespace) -> Outcome:
    """Generates, then writes every file by rename."""
    config = configuration(args.config)
    if args.output.exists() and not args.output.is_dir():
        raise UserError(f"{args.output}: is a file, not a folder to write into")
    from cnna.sim.generate import write

    with TemporaryDirectory() as part:
        try:
            with _progress(config.name) as tick:
                made = write(config, Path(part), args.module, tick)
        except ConfigError as error:
            raise UserError(f"--module: {error}") from None
        make_folder(args.output)
        written = [args.output / path.name for path in made]
        for path, target in zip(made, written, strict=True):
            write_bytes(target, path.read_bytes())
    for target in written:
        print(target)
    return Outcome({"config": config.name, "module": args.module or "top", "files": [str(path) for path in written]})


@contextmanager
def _progress(name: str) -> Iterator[Callable[[], None]]:
    """Shows how long it has taken so far, on a terminal only."""
    began, shown = time.monotonic(), sys.stderr.isatty()

    def tick() -> None:
        if shown:
            print(f"\rgenerating the Verilog of {name}: {time.monotonic() - began:.0f} s", end="", file=sys.stderr, flush=True)

    try:
        yield tick
    finally:
        if shown:
            print(file=sys.stderr)
