"""`cnna rtl`: writes the Verilog of the accelerator, or of one module, with a description of its registers."""

import argparse
from pathlib import Path

from cnna.cli.main import Outcome
from cnna.cli.options import CONFIG_HELP, add_cache_option, configuration
from cnna.cli.progress import Steps
from cnna.jobs import rtl as jobs
from cnna.spec.config import Config


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("--config", default="tiny", metavar="C", help=f"{CONFIG_HELP} (default: tiny)")
    parser.add_argument("--module", metavar="NAME", help="write only this module (default: the whole accelerator)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the files")
    add_cache_option(parser)


def run(args: argparse.Namespace) -> Outcome:
    """Generates everything, then writes every file by rename."""
    config = configuration(args.config)
    with Steps("generating") as steps:
        found = jobs.rtl(config, args.module, output=args.output, cache=args.cache, progress=steps.step)
    print(found)
    return Outcome(found.figures())


def generated(config: Config, module: str | None = None, cache: Path | None = None) -> dict[str, bytes]:
    """As `cnna.jobs.rtl.generated`, with its progress on the terminal."""
    with Steps("generating") as steps:
        return jobs.generated(config, module, cache, lambda what: steps.step(0, 0, what))
