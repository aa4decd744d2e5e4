"""`cnna rtl`: writes the Verilog of the accelerator, or of one module, with a description of its registers."""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from cnna.cli.main import Outcome
from cnna.cli.options import CONFIG_HELP, add_cache_option, configuration
from cnna.cli.progress import Progress
from cnna.spec.config import Config, ConfigError
from cnna.spec.errors import UserError
from cnna.spec.files import make_folder, write_bytes


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("--config", default="tiny", metavar="C", help=f"{CONFIG_HELP} (default: tiny)")
    parser.add_argument("--module", metavar="NAME", help="write only this module (default: the whole accelerator)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the files")
    add_cache_option(parser)


def run(args: argparse.Namespace) -> Outcome:
    """Generates everything, then writes every file by rename."""
    config = configuration(args.config)
    if args.output.exists() and not args.output.is_dir():
        raise UserError(f"{args.output}: is a file, not a folder to write into")
    try:
        contents = generated(config, args.module, args.cache)
    except ConfigError as error:
        raise UserError(f"--module: {error}") from None
    make_folder(args.output)
    written = [args.output / name for name in contents]
    for target, content in zip(written, contents.values(), strict=True):
        write_bytes(target, content)
    for target in written:
        print(target)
    return Outcome({"config": config.name, "module": args.module or "top", "files": [str(path) for path in written]})


def generated(config: Config, module: str | None = None, cache: Path | None = None) -> dict[str, bytes]:
    """The files of `hw.verilog.writer.write` by name, the Verilog first. Ctrl-C ends it at once. ConfigError: no such module.

    The Verilog of the whole accelerator comes from the cache folder, where the simulators' sources are, or goes there.
    """
    from cnna.sim.rtl.generate import write
    from cnna.sim.rtl.sources import generating, kept
    from cnna.spec.files import default_cache

    with TemporaryDirectory() as part, Progress(generating(config, None)) as progress:

        def tick(left: float | None) -> None:
            progress.count(0, 0, generating(config, left))

        text = None if module else kept(config, cache or default_cache(), tick)
        return {path.name: path.read_bytes() for path in write(config, Path(part), module, tick, text)}
