"""`cnna rtl`: the accelerator's Verilog, or one block's, with a description of its registers."""

import argparse
from pathlib import Path

from cnna.host.cli import Outcome
from cnna.host.errors import UserError
from cnna.hw.config import ConfigError, preset


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--config", required=True, metavar="C", help="tiny or zcu102")
    parser.add_argument("--module", metavar="NAME", help="write this block alone (default: the whole accelerator)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the files")


def run(args: argparse.Namespace) -> Outcome:
    """Generates and writes."""
    try:
        config = preset(args.config)
    except ConfigError as error:
        raise UserError(f"--config: {error}") from None
    try:
        args.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{args.output}: cannot be made: {(error.strerror or str(error)).lower()}") from None
    from cnna.hw.verilog import write

    written = write(config, args.output, args.module)
    for path in written:
        print(path)
    return Outcome({"config": config.name, "module": args.module or "top", "files": [str(path) for path in written]})
