"""`cnna rtl`: writes the Verilog of the accelerator, or of one block, with a description of its registers."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from cnna.cli.main import Outcome
from cnna.cli.options import CONFIG_HELP, configuration
from cnna.spec.config import Config, ConfigError
from cnna.spec.errors import UserError
from cnna.spec.files import make_folder, write_bytes

PATIENCE_SECONDS = 5.0  # then a line says what takes so long


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("--config", default="tiny", metavar="C", help=f"{CONFIG_HELP} (default: tiny)")
    parser.add_argument("--module", metavar="NAME", help="write only this block (default: the whole accelerator)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the files")


def run(args: argparse.Namespace) -> Outcome:
    """Generates everything, then writes every file by rename."""
    config = configuration(args.config)
    if args.output.exists() and not args.output.is_dir():
        raise UserError(f"{args.output}: is a file, not a folder to write into")
    try:
        contents = generated(config, args.module)
    except ConfigError as error:
        raise UserError(f"--module: {error}") from None
    make_folder(args.output)
    written = [args.output / name for name in contents]
    for target, content in zip(written, contents.values(), strict=True):
        write_bytes(target, content)
    for target in written:
        print(target)
    return Outcome({"config": config.name, "module": args.module or "top", "files": [str(path) for path in written]})


def generated(config: Config, module: str | None = None) -> dict[str, bytes]:
    """The files of `hw.verilog.writer.write` by name, the Verilog first. Ctrl-C ends it at once. ConfigError: no such block."""
    from cnna.sim.rtl.generate import write

    with TemporaryDirectory() as part, _progress(config.name) as tick:
        return {path.name: path.read_bytes() for path in write(config, Path(part), module, tick)}


@contextmanager
def _progress(name: str) -> Iterator[Callable[[], None]]:
    """Shows on a terminal how long it has taken so far; elsewhere prints one line if it takes more than some seconds."""
    began, shown, said = time.monotonic(), sys.stderr.isatty(), False

    def tick() -> None:
        nonlocal said
        if not shown and not said and time.monotonic() - began > PATIENCE_SECONDS:
            said = True
            print(f"generating the Verilog of {name}", file=sys.stderr, flush=True)
        if shown:
            print(f"\rgenerating the Verilog of {name}: {time.monotonic() - began:.0f} s", end="", file=sys.stderr, flush=True)

    try:
        yield tick
    finally:
        if shown:
            print(file=sys.stderr)
