"""`cnna explore`: finds the configuration that is quickest for a model, from picture to answer, within a chip's DSPs, memories and
LUTs.
"""

import argparse
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cnna.cli.detector_option import add_detector_option
from cnna.cli.main import PAGES, Outcome
from cnna.cli.options import add_cache_option, add_ddr_options, add_shape_option, configuration, ddr_options, given_shapes, warned
from cnna.cli.progress import Steps
from cnna.jobs.charts import chart_library
from cnna.jobs.explore.confirm import checked_size
from cnna.jobs.explore.explore import Explored, explore, tilings
from cnna.jobs.explore.search_choices import TRIES, search_choices
from cnna.jobs.options.ddr import Ddr
from cnna.spec.boards import BOARDS, LUT_SHARE
from cnna.spec.counts import many
from cnna.spec.errors import UserError
from cnna.spec.exploring import OBJECTIVES, SAMPLERS, SWEPT
from cnna.spec.files import write_bytes, write_text
from cnna.spec.host_time.cortex_a53 import Range
from cnna.spec.host_time.end_to_end import TO_ANSWER, rates

SWEEP = (  # options that `explore` takes by the same names
    *("weights", "target_fps", "target_ms", "ddr_traffic", "objective", "axes", "energy", "sweep", "jobs", "executor"),
    *("board", "dsp", "bram", "uram", "lut", "clock", "ddr_speed"),
    *("resume", "again", "search", "sampler", "seed", "detector"),
)
OUTPUTS = {"png": (".png",), "html": PAGES, "choices": (".json",)}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "model",
        type=Path,
        nargs="+",
        metavar="M.onnx",
        help="quantised, or float, which is then quantised with random numbers",
    )
    parser.add_argument("--weights", type=_numbers, metavar="W,W", help="the models' shares of the images (default: equal)")
    parser.add_argument(
        "--target-fps", type=float, metavar="F", help="images a second from picture to answer that are enough, at the slow end"
    )
    parser.add_argument(
        "--target-ms", type=float, metavar="MS", help="milliseconds from a batch alone to its answer, at the slow end"
    )
    parser.add_argument("--ddr-traffic", type=float, metavar="MB", help="million bytes through DDR that an image may take")
    parser.add_argument(
        "--objective",
        metavar="O",
        help=f"what is best: {', '.join(OBJECTIVES)} (default: fps, picture to answer; dsp with a target)",
    )
    parser.add_argument("--axes", type=_names, metavar="A,A", help="what else has to be beaten (default: dsp,bram)")
    parser.add_argument(
        "--energy", type=_constants, metavar="K=V,K=V", help="pJ of mac, bram access and ddr byte, and static W (docs/explore.md)"
    )
    parser.add_argument("--sweep", type=_names, metavar="S,S", help=f"tried in all sizes: {', '.join(SWEPT)}")
    parser.add_argument("--board", choices=BOARDS, help="the chip and its DDR (default: zcu102)")
    parser.add_argument("--dsp", type=int, metavar="N", help="DSP48E2 at most (default: the board's, such as 2520)")
    parser.add_argument("--bram", type=int, metavar="N", help="BRAM36 at most (default: the board's, such as 912)")
    parser.add_argument(
        "--uram", type=int, metavar="N", help="URAM288 at most; 0: feature memory in block RAM (default: the board's)"
    )
    parser.add_argument("--lut", type=int, metavar="N", help=f"LUTs at most (default: {LUT_SHARE:.0%}% of the board's)")
    parser.add_argument(
        "--clock", type=_whole, metavar="MHZ,MHZ", help="clocks that are tried (default: that of the board's preset)"
    )
    parser.add_argument(
        "--ddr-speed", type=_whole, metavar="MB,MB", help="million bytes a second of DDR that are tried (default: the board's)"
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="processes that compile (default: one for each core)")
    parser.add_argument("--executor", metavar="dask://HOST:PORT", help="compile on this Dask cluster instead")
    parser.add_argument("--resume", action="store_true", help="go on with what was interrupted; an error if nothing is kept")
    parser.add_argument("--again", action="store_true", help="compile what is kept from before, too")
    parser.add_argument("--search", type=int, metavar="N", help="compile N points at most, which Optuna proposes, and not all")
    parser.add_argument("--sampler", choices=SAMPLERS, help="of Optuna, for --search (default: tpe)")
    parser.add_argument("--seed", type=int, metavar="N", help="of --search (default: 1)")
    parser.add_argument("--confirm", type=int, metavar="N", help="then run the N best on the simulated RTL (minutes for each)")
    parser.add_argument("--confirm-size", type=int, metavar="PIXELS", help="with images of this longer edge (default: few clocks)")
    parser.add_argument("--batch", type=int, metavar="N", help="images in a run (default: 1, and 2 and 4 for the quickest)")
    parser.add_argument("--layer", metavar="NAME", help="show all legal tilings of this layer instead, for --config")
    parser.add_argument("--choices", type=Path, metavar="F.json", help="search for quicker plans for --config, and write them")
    parser.add_argument("--tries", type=int, metavar="N", help=f"plans that --choices predicts (default: {TRIES})")
    parser.add_argument("--config", metavar="C", help="the configuration for --layer or --choices (default: zcu102)")
    parser.add_argument(
        "--png",
        type=Path,
        metavar="F",
        help="write a picture: speed to the answer over DSPs, or with --layer clocks over DDR bytes",
    )
    parser.add_argument("--html", type=Path, metavar="F", help="write a page with linked plots; a click copies a configuration")
    add_detector_option(parser, ", and model cnna.Detector, which decodes its boxes on integers")
    add_cache_option(parser, "where predictions and the page's JavaScript are kept (default: the user's cache folder)")
    add_shape_option(parser)
    add_ddr_options(parser)


def run(args: argparse.Namespace) -> Outcome:
    """Compiles for every configuration and prints those that no other beats."""
    if args.batch is not None and args.batch < 1:
        raise UserError(f"--batch {args.batch}: must be at least 1")
    ddr = ddr_options(args)
    if args.choices is not None or args.layer is not None:
        for name in (*_given(args), *["confirm"] * (args.confirm is not None)):
            if name != "batch":
                raise UserError(f"--{name.replace('_', '-')} is for comparing configurations, and not for --layer or --choices")
    if args.choices is not None:
        return _choices(args, ddr)
    if args.tries is not None:
        raise UserError(f"--tries {args.tries} is for --choices")
    if args.layer is not None:
        if ddr.given():
            raise UserError(
                "--ddr-bytes-per-cycle and --ddr-latency are not for --layer, whose tilings are chosen for the planned DDR"
            )
        if args.html:
            raise UserError("--html is not for --layer; --png draws its tilings")
        if args.batch is not None:
            raise UserError("--batch is not for --layer, whose tilings are estimated for one image")
        if len(args.model) > 1:
            raise UserError("--layer is of one model; give that alone")
        return _layer(args)
    if args.config is not None:
        raise UserError(f"--config {args.config} needs --layer or --choices; without them, explore compares configurations itself")
    _check_confirm(args)
    if args.html:
        chart_library(args.cache)  # what is missing is said before minutes of work
    if args.search is None and (args.sampler is not None or args.seed is not None):
        raise UserError("--sampler and --seed are for --search")
    wanted = {"jobs": cores(), "cache": args.cache, **_given(args)}
    with Early("compiling") as early:
        given: dict[str, Any] = {"ddr": ddr, "shapes": given_shapes(args), "warn": warned}
        given |= {"progress": early.step, "found": early.found, "confirm_size": args.confirm_size}
        try:
            found = explore(args.model, **wanted, **given)
        except (KeyboardInterrupt, SystemExit):
            early.interrupted()
            raise
    early.line(counts(found))
    print(found)
    if args.png:
        write_bytes(args.png, found.picture())
    if args.html:
        write_text(args.html, found.page(args.cache))
    figures = found.figures()
    if args.confirm is not None:
        with Steps("confirming", each=True) as steps:
            runs = found.confirm(args.confirm, args.confirm_size, steps.step)
        print(f"\n{runs}")
        figures["confirmed"] = runs.figures()["runs"]
    return Outcome(figures, written=tuple(path for path in (args.png, args.html) if path))


def _given(args: argparse.Namespace) -> dict[str, Any]:
    """The options of a sweep that are given, by name; `explore` itself says what the others are."""
    found = {name: getattr(args, name) for name in (*SWEEP, "batch")}
    return {name: value for name, value in found.items() if value is not None and value is not False}


def _check_confirm(args: argparse.Namespace) -> None:
    """What is wrong is said before minutes of work."""
    if args.confirm is not None and args.confirm < 1:
        raise UserError(f"--confirm {args.confirm}: must be at least 1")
    if args.confirm_size is not None and args.confirm is None:
        raise UserError(f"--confirm-size {args.confirm_size} is for --confirm")
    checked_size(args.confirm_size)


def counts(found: Explored) -> str:
    """How many points were compiled, and how many did not have to be."""
    known = len(found.points) - found.compiled + found.refused
    parts = [f"{many(found.compiled, 'point')} compiled"]
    if found.plans < found.compiled:  # points that differ in DDR or clock alone share one
        parts = [f"{many(found.compiled, 'point')} predicted with {many(found.plans, 'new plan')}"]
    parts += [f"{known:,} kept from before"] * (known > 0)
    return ", ".join(parts + [f"{found.discarded:,} ruled out by their least work"] * (found.discarded > 0))


def _names(text: str) -> list[str]:
    """What was given, separated by commas. argparse.ArgumentTypeError: nothing was."""
    found = [name.strip() for name in text.split(",") if name.strip()]
    if not found:
        raise argparse.ArgumentTypeError(
            f"{text!r} names nothing; leave the option out, or name one or several, separated by commas"
        )
    return found


def _numbers(text: str) -> list[float]:
    """Numbers, separated by commas. argparse.ArgumentTypeError: one is none."""
    try:
        return [float(name) for name in _names(text)]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: not numbers separated by commas, such as 3,1") from None


def _whole(text: str) -> list[int]:
    """Whole numbers, separated by commas. argparse.ArgumentTypeError: one is none."""
    try:
        return [int(name) for name in _names(text)]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: not whole numbers separated by commas, such as 150,300") from None


def _constants(text: str) -> dict[str, float]:
    """Numbers by name. argparse.ArgumentTypeError: one is none."""
    try:
        return {name.strip(): float(value) for name, _, value in (each.partition("=") for each in _names(text))}
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: not numbers by name, such as mac=0.3,bram=10,ddr=160") from None


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Early(Steps):
    """Prints points as they come, to standard error: each that none so far beats. Off a terminal, a line says now and then how far
    the command is.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self._points, self._of, self._last, self._began = 0, (0, 0), "", time.monotonic()

    def at_work(self) -> str:
        """As of `Steps`."""
        done, total = self._of
        seconds = f"at work for {time.monotonic() - self._began:,.0f} s"
        return f"{seconds}; {done:,} of {many(total, 'point')}, the last one {self._last}" if total else seconds

    def step(self, done: int, total: int, what: str) -> None:
        """As of `Steps`; all points are one step, so what is left follows from the pace of all."""
        self._of, self._last = (done, total), what
        self._progress.count(done, total, what)

    def found(self, figures: Mapping[str, Any]) -> None:
        """A point."""
        self._points += 1
        if figures["pareto"]:
            speed = f"{rates(Range(figures['fps_end_to_end_quick'], figures['fps_end_to_end']))} images a second {TO_ANSWER}"
            batch = f", batch {figures['batch']}" if figures["batch"] > 1 else ""
            self.line(f"{figures['config']}{batch}: {figures['dsp48e2']:,} DSP48E2, {figures['bram36']:g} BRAM36, {speed}")

    def interrupted(self) -> None:
        """Says what was not lost."""
        if self._points:
            self.line(f"{many(self._points, 'point')} of {self._of[1]:,} kept; the same command with --resume goes on")


def _choices(args: argparse.Namespace, ddr: Ddr) -> Outcome:
    """Searches for choices of the plan, and writes them."""
    if len(args.model) > 1 or args.layer is not None or args.png or args.html:
        raise UserError("--choices is for one model, and not for --layer, --png or --html")
    tries = TRIES if args.tries is None else args.tries
    with Steps("compiling") as steps:
        given: dict[str, Any] = {"ddr": ddr, "shapes": given_shapes(args), "progress": steps.step, "warn": warned}
        config = configuration(args.config or "zcu102")
        found = search_choices(args.model[0], config, batch=args.batch or 1, tries=tries, output=args.choices, **given)
    print(found)
    return Outcome(found.figures(), written=(args.choices,))


def _layer(args: argparse.Namespace) -> Outcome:
    """Prints all legal tilings of one layer."""
    found = tilings(args.model[0], args.layer, configuration(args.config or "zcu102"), shapes=given_shapes(args), warn=warned)
    print(found)
    if args.png:
        write_bytes(args.png, found.picture())
    return Outcome(found.figures(), written=(args.png,) if args.png else ())
