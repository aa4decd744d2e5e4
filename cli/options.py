"""Options that several commands share: `--config`, `--shape`, the DDR to simulate or predict with.

`--config` names a preset, or a preset with changed parameters, such as `zcu102,pix=4,bank_words=4096`. `--ddr-bytes-per-cycle` and
`--ddr-latency` describe another DDR than the board's. `--shape` gives an input the sizes that a model leaves open.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cnna.cli.progress import clear_line
from cnna.jobs.given import Note
from cnna.jobs.given import native_host as native_host
from cnna.jobs.options.configurations import LONGEST_NUMBER
from cnna.jobs.options.configurations import configuration as configuration
from cnna.jobs.options.ddr import Ddr
from cnna.spec.config import PRESETS
from cnna.spec.ddr import ROADS
from cnna.spec.errors import UserError
from cnna.spec.machine import limits

if TYPE_CHECKING:
    from cnna.compiler.frontend.source_model import SourceModel

CONFIG_HELP = f"{', '.join(PRESETS)}, or one with parameters changed: zcu102,pix=4,bank_words=4096"
CACHE_HELP = "where Verilog and simulators are kept (default: the user's cache folder)"


def add_library_option(parser: argparse.ArgumentParser) -> None:
    """Adds `--cache` to a command whose page has charts."""
    text = "where the JavaScript of the page's charts is kept (default: the user's cache folder)"
    add_cache_option(parser, text)


def add_cache_option(parser: argparse.ArgumentParser, text: str = CACHE_HELP) -> None:
    """Adds `--cache`. text: its help."""
    parser.add_argument("--cache", type=_cache_folder, metavar="DIR", help=text)


def _cache_folder(text: str) -> Path:
    """The folder, which need not exist; but a name with a slip in it must not make a whole path elsewhere."""
    folder = Path(text)
    if not folder.absolute().parent.exists():
        raise argparse.ArgumentTypeError(f"{text}: the folder {folder.parent} does not exist; make it first")
    return folder


def _batch(text: str) -> int:
    """What --batch was given. argparse.ArgumentTypeError: no run of a program takes so many images."""
    most = limits("conv", "images")[1]
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is no batch; one is 1 to {most} images, and more are several batches")
    return int(text)


def add_batch_option(parser: argparse.ArgumentParser, again: bool = False) -> None:
    """Adds `--batch`. again: a .cnna that is compiled anew has one of its own."""
    default, own = (None, ", or that of a .cnna") if again else (1, "")
    parser.add_argument(
        "--batch", type=_batch, default=default, metavar="N", help=f"images in one run of the program (default: 1{own})"
    )


def add_shape_option(parser: argparse.ArgumentParser) -> None:
    """Adds `--shape`, which may be given once for each input."""
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME:1,3,640,640",
        help="sizes of an input if the model has none, batch (1) first; once for each input; a single input needs no NAME:",
    )


def warned(line: str) -> None:
    """Prints what a user should read to standard error. A note says of itself what it is."""
    clear_line()
    print(line if isinstance(line, Note) else f"cnna: warning: {line}", file=sys.stderr)


def load_shaped(source: Path | bytes, args: argparse.Namespace, name: str | None = None) -> "SourceModel":
    """A model whose inputs have the sizes of `--shape`; a warning about them goes to standard error. name: what errors call it."""
    from cnna.compiler.frontend.onnx_import import read

    return read(source, name, given_shapes(args), warned)


def given_shapes(args: argparse.Namespace) -> dict[str, tuple[int, ...]]:
    """The sizes that were given, by input; "" names the only input. UserError: sizes cannot be read, or an input comes twice."""
    found: dict[str, tuple[int, ...]] = {}
    for text in args.shape:
        name, _, sizes = text.rpartition(":")  # names may have colons: input:0
        if not all(size.strip().isdecimal() and len(size) <= LONGEST_NUMBER for size in sizes.split(",")):
            raise UserError(f"--shape {text}: not NAME:SIZE,SIZE,... with whole numbers, as in images:1,3,640,640")
        if name in found:
            raise UserError(f"--shape {text}: {f'input {name}' if name else 'an input'} is given twice")
        found[name] = tuple(map(int, sizes.split(",")))
    return found


def add_ddr_options(parser: argparse.ArgumentParser) -> None:
    """Adds both options of the DDR to a command."""
    parser.add_argument(
        "--ddr-bytes-per-cycle",
        type=int,
        metavar="N",
        help="bytes a clock that all AXI ports move together (default: the board's, such as 48; docs/boards.md)",
    )
    parser.add_argument(
        "--ddr-latency", type=int, metavar="N", help="clocks until DDR answers a read or write (default: the board's, such as 120)"
    )


def add_road_options(parser: argparse.ArgumentParser, default: str | None = "plain") -> None:
    """Adds the options that name the road to DDR. default: None leaves open which one it is."""
    text = "the road to DDR: plain, or a ZCU102's with its ports, rows and refresh"
    parser.add_argument("--ddr", choices=ROADS, default=default, help=text + (f" (default: {default})" if default else ""))
    speeds = list(ROADS["zcu102-ps"].planned)
    text = f"million transfers a second of the DDR4 of zcu102-ps and zcu102-ps-rev1.1 (default: {speeds[0]})"
    parser.add_argument("--ddr-mts", type=int, choices=speeds, help=text)


def ddr_options(args: argparse.Namespace) -> Ddr:
    """The options of the DDR, and of its road where the command has them. UserError: no memory here has such a value."""
    found = Ddr(args.ddr_bytes_per_cycle, args.ddr_latency, getattr(args, "ddr", None), getattr(args, "ddr_mts", None))
    found.given()
    found.named()
    return found
