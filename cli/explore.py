"""`cnna explore`: finds the configuration that is quickest for a model, from picture to answer, within a chip's DSPs, memories and
LUTs.
"""

import argparse
from pathlib import Path

from cnna.cli.main import PAGES, Outcome
from cnna.cli.options import add_ddr_options, add_library_option, add_shape_option, configuration, ddr_options, given_shapes, warned
from cnna.cli.progress import Progress
from cnna.jobs.charts import chart_library
from cnna.jobs.explore import explore, tilings
from cnna.spec.boards import BOARDS, LUT_SHARE
from cnna.spec.errors import UserError
from cnna.spec.files import write_bytes, write_text

OUTPUTS = {"png": (".png",), "html": PAGES}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "model", type=Path, metavar="M.onnx", help="quantised, or float (explore then quantises it with random numbers)"
    )
    parser.add_argument("--board", default="zcu102", choices=BOARDS, help="the chip and its DDR (default: zcu102)")
    parser.add_argument("--dsp", type=int, metavar="N", help="DSP48E2 at most (default: the board's, such as 2520)")
    parser.add_argument("--bram", type=int, metavar="N", help="BRAM36 at most (default: the board's, such as 912)")
    parser.add_argument(
        "--uram", type=int, metavar="N", help="URAM288 at most; 0: feature memory in block RAM (default: the board's)"
    )
    parser.add_argument("--lut", type=int, metavar="N", help=f"LUTs at most (default: {LUT_SHARE:.0%}% of the board's)")
    parser.add_argument("--batch", type=int, metavar="N", help="images in a run (default: 1, and 2 and 4 for the quickest)")
    parser.add_argument("--layer", metavar="NAME", help="show all legal tilings of this layer instead, for --config")
    parser.add_argument("--config", metavar="C", help="the configuration for --layer (default: zcu102)")
    parser.add_argument(
        "--png",
        type=Path,
        metavar="F",
        help="write a picture: speed to the answer over DSPs, or with --layer clocks over DDR bytes",
    )
    parser.add_argument("--html", type=Path, metavar="F", help="write a page with linked plots; a click copies a configuration")
    add_library_option(parser)
    add_shape_option(parser)
    add_ddr_options(parser)


def run(args: argparse.Namespace) -> Outcome:
    """Compiles for every configuration and prints those that no other beats."""
    if args.batch is not None and args.batch < 1:
        raise UserError(f"--batch {args.batch}: must be at least 1")
    ddr = ddr_options(args)
    if args.layer is not None:
        if ddr.given():
            raise UserError(
                "--ddr-bytes-per-cycle and --ddr-latency are not for --layer, whose tilings are chosen for the planned DDR"
            )
        if args.html:
            raise UserError("--html is not for --layer; --png draws its tilings")
        if args.batch is not None:
            raise UserError("--batch is not for --layer, whose tilings are estimated for one image")
        return _layer(args)
    if args.config is not None:
        raise UserError(f"--config {args.config} needs --layer; without it, explore compares configurations itself")
    if args.html:
        chart_library(args.cache)  # what is missing is said before minutes of work
    limits = {"dsp": args.dsp, "bram": args.bram, "uram": args.uram, "lut": args.lut, "batch": args.batch}
    with Progress("compiling") as progress:
        found = explore(args.model, args.board, **limits, ddr=ddr, shapes=given_shapes(args), progress=progress.step, warn=warned)
    print(found)
    if args.png:
        write_bytes(args.png, found.picture())
    if args.html:
        write_text(args.html, found.page(args.cache))
    return Outcome(found.figures(), written=tuple(path for path in (args.png, args.html) if path))


def _layer(args: argparse.Namespace) -> Outcome:
    """Prints all legal tilings of one layer."""
    found = tilings(args.model, args.layer, configuration(args.config or "zcu102"), shapes=given_shapes(args), warn=warned)
    print(found)
    if args.png:
        write_bytes(args.png, found.picture())
    return Outcome(found.figures(), written=(args.png,) if args.png else ())
