"""`cnna explore`: finds the configuration that is quickest for a model, from picture to answer, within a chip's DSPs, memories and
LUTs.
"""

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cnna.cli.main import PAGES, Outcome
from cnna.cli.options import (
    add_ddr_options,
    add_library_option,
    add_shape_option,
    chart_library,
    configuration,
    given_ddr,
    load_shaped,
    native_host,
    predicted_ddr,
)
from cnna.cli.progress import Progress
from cnna.spec.boards import BOARDS, LUT_SHARE, Board
from cnna.spec.config import preset
from cnna.spec.counts import many
from cnna.spec.errors import UserError, about_model
from cnna.spec.files import write_text, writing
from cnna.spec.host_time.end_to_end import IN_PYTHON, NATIVELY

if TYPE_CHECKING:
    from cnna.compiler.placements import Placements

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
    ddr = given_ddr(args)
    if args.layer is not None:
        if ddr:
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
    from cnna.compiler.explore import explore

    drawing = chart_library(args.cache) if args.html else ""  # before minutes of work
    board, budget = BOARDS[args.board], _budget(args)
    configs = explore.configurations(budget, board)
    with about_model(args.model):
        model = _model(args)
    name, native = model.name, native_host()
    memory = predicted_ddr(ddr, board.ddr)
    with Progress("compiling") as progress:
        points, refused = explore.explore(
            *(model.pieces, configs, args.batch),
            *(lambda done, total, what: progress.count(done, total, f"compiling for {what}"), memory, native),
        )
    best = explore.pareto(points)
    print(explore.table(best))
    print(_speeds(board, f" for {memory}" if ddr else "", native))
    print(
        f"of {len(points):,} explored, those that none beats in speed to the answer (slow end), DSP48E2 and BRAM36 at once"
        + (f"; {many(refused, 'configuration')} cannot run the model" if refused else "")
    )
    if args.png:
        from cnna.compiler.explore.explore import picture

        with writing(args.png) as file:
            picture(name, points, budget, file)
    if args.html:
        from cnna.compiler.explore.page import html

        write_text(args.html, html(name, points, budget, drawing))
    limits = {"dsp48e2": budget.dsp, "bram36": budget.bram36, "uram288": budget.uram288, "luts": budget.luts}
    host = "native" if native else "python"
    about = {"name": name, "board": args.board, **limits, "refused": refused, "ddr": memory.entry(), "host": host}
    explored = [{**point.figures(), "pareto": point in best} for point in points]
    return Outcome({**about, "points": explored}, written=tuple(path for path in (args.png, args.html) if path))


def _speeds(board: Board, memory: str, native: bool) -> str:
    """Of what the table states images a second, and for which clock: the board's."""
    alone = f"of the accelerator alone are predicted{memory} at {preset(board.key).clock_mhz} MHz, the clock of {board.key}"
    return f"images a second (fps) {alone}; those from picture to answer are modelled, {NATIVELY if native else IN_PYTHON}"


def _budget(args: argparse.Namespace) -> Any:
    """The board's budget, with what the options change."""
    from cnna.compiler.explore.sizes import budget_of

    given = {"dsp": args.dsp, "bram36": args.bram, "luts": args.lut, "uram288": args.uram}
    return budget_of(BOARDS[args.board])._replace(**{name: value for name, value in given.items() if value is not None})


def _layer(args: argparse.Namespace) -> Outcome:
    """Prints all legal tilings of one layer."""
    config = configuration(args.config or "zcu102")
    from cnna.compiler.explore import layer

    with about_model(args.model):
        choices = layer.tilings(_model(args).programs, config, args.layer)
    print(f"{args.layer} on {config.name}, {many(len(choices) - 1, 'legal tiling')}, estimated for one image")
    for line in layer.best(choices):
        print(line)
    if args.png:
        with writing(args.png) as file:
            layer.picture(f"{args.layer} on {config.name}", choices, file)
    figures = {"layer": args.layer, "config": config.name, "tilings": [asdict(choice) for choice in choices]}
    return Outcome(figures, written=(args.png,) if args.png else ())


def _model(args: argparse.Namespace) -> "Placements":
    """The model, cut for any configuration. A float model is quantised with random numbers, which do not change its speed.

    UserError: nothing of it runs on the accelerator.
    """
    from cnna.compiler.frontend.onnx_import import to_graph
    from cnna.compiler.placements import Placements
    from cnna.compiler.quantise.calibrate import random_samples
    from cnna.compiler.quantise.quantise import quantise

    source = load_shaped(args.model, args)
    if any(node.op_type.startswith(("QLinear", "QuantizeLinear", "DequantizeLinear")) for node in source.proto.graph.node):
        found = Placements(source)
    else:
        print(f"{args.model}: float, so it is quantised with random numbers; this changes no clock", file=sys.stderr)
        found = Placements(quantise(source, random_samples(to_graph(source)))[0])
    if not found.programs:
        raise UserError(
            f"{args.model}: nothing in it runs on the accelerator, so there is nothing to explore; cnna explain says why"
        )
    return found
