"""Options that several commands share: `--config`, `--shape`, the DDR to simulate or predict with.

`--config` names a preset, or a preset with changed parameters, such as `zcu102,pix=4,bank_words=4096`. `--ddr-bytes-per-cycle` and
`--ddr-latency` describe another DDR than the board's. `--shape` gives an input the sizes that a model leaves open.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cnna.cli.progress import clear_line
from cnna.jobs.configurations import LONGEST_NUMBER
from cnna.jobs.configurations import configuration as configuration
from cnna.jobs.given import native_host as native_host
from cnna.spec.config import PRESETS, Config
from cnna.spec.ddr import ROADS, DdrSpeed
from cnna.spec.errors import DataError, UserError
from cnna.spec.machine import limits

if TYPE_CHECKING:
    from cnna.compiler.frontend.source_model import SourceModel

CONFIG_HELP = f"{', '.join(PRESETS)}, or one with parameters changed: zcu102,pix=4,bank_words=4096"
CACHE_HELP = "where Verilog and simulators are kept (default: the user's cache folder)"
DDR_LIMITS = {"ddr_bytes_per_cycle": (1, 64), "ddr_latency": (1, 10_000)}  # limits of the options; 64: four ports of 16 bytes
NOTE = "note: "  # the beginning of a line about what is left out
DDR_FIGURES = DdrSpeed._fields  # the entries of `ddr` in a run's figures


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


def chart_library(cache: Path | None) -> str:
    """The JavaScript that draws a page's charts. UserError: the folder cannot be used. ToolError: its package is missing."""
    from cnna.compiler.report.html import library
    from cnna.sim.rtl.cache import private
    from cnna.spec.files import default_cache

    return library(private(cache or default_cache()))


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
    print(line if line.startswith(NOTE) else f"cnna: warning: {line}", file=sys.stderr)


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


def named_road(args: argparse.Namespace) -> tuple[str, int] | None:
    """The road that was named, and its million transfers a second; None: none was. UserError: it has no use for another option."""
    if args.ddr_mts is not None and args.ddr_mts not in ROADS[args.ddr or "plain"].planned:
        raise UserError(f"--ddr-mts is for --ddr zcu102-ps and zcu102-ps-rev1.1{f', not {args.ddr}' if args.ddr else ''}")
    if args.ddr is None:
        return None
    if args.ddr != "plain" and args.ddr_bytes_per_cycle is not None:
        raise UserError(f"--ddr-bytes-per-cycle is for --ddr plain; what {args.ddr} moves follows from its DDR4")
    return args.ddr, args.ddr_mts or next(iter(ROADS[args.ddr].planned))


def given_road(args: argparse.Namespace) -> dict[str, int]:
    """The named road as settings of the simulated DDR. UserError: as `named_road`."""
    name, mts = named_road(args) or ("plain", 0)
    return {} if name == "plain" else {"road": ROADS[name].number, "mts": mts}


def given_ddr(args: argparse.Namespace) -> dict[str, int]:
    """The options of the DDR that were given, by name. UserError: no memory here has such a value."""
    found = {name: value for name in DDR_LIMITS if (value := getattr(args, name)) is not None}
    for name, value in found.items():
        low, high = DDR_LIMITS[name]
        if not low <= value <= high:
            raise UserError(f"--{name.replace('_', '-')} {value}: must be within {low}..{high}")
    return found


def simulated_ddr(found: Mapping[str, int]) -> dict[str, int]:
    """The given options of the DDR as settings of the simulated one."""
    names = {"ddr_bytes_per_cycle": ("bytes_per_clock",), "ddr_latency": ("latency", "write_latency")}
    return {setting: value for name, value in found.items() for setting in names[name]}


def ddr_figures(settings: Mapping[str, int], config: Config) -> dict[str, int | str]:
    """What a run's figures say of its DDR: these `settings`, and the board's own values where there are none.

    A road other than the plain one has its name and speed, and the bytes a clock that are planned for it.
    """
    from cnna.sim.rtl.linked_models import SETTINGS, board_settings

    whole = {name: default for name, (default, _) in SETTINGS.items()} | board_settings(config) | dict(settings)
    for name, road in ROADS.items():
        if road.number == whole["road"] != 0:
            planned = dict(zip(DDR_FIGURES, (road.planned[whole["mts"]], whole["latency"]), strict=True))
            return {"road": name, "mts": whole["mts"], **planned}
    return dict(zip(DDR_FIGURES, (whole["bytes_per_clock"], whole["latency"]), strict=True))


def predicted_ddr(
    found: Mapping[str, int],
    own: DdrSpeed,
    measured: Mapping[str, Any] | None = None,
    road: tuple[str, int] | None = None,
    ports: int = 4,
) -> DdrSpeed:
    """The DDR to predict for. What the options leave open is as in the `measured` run, or else as the board's `own`.

    road: as `named_road` gives it. ports: of the accelerator. DataError: the run's `ddr` is not what a run writes.
    """
    values = dict(zip(DDR_LIMITS, own, strict=True))
    if run := (measured or {}).get("ddr"):
        if not isinstance(run, dict) or not _is_written(run):
            raise DataError(f"ddr is {run}, which is not what `cnna run --json` writes")
        values = {name: run[figure] for name, figure in zip(DDR_LIMITS, DDR_FIGURES, strict=True)}
        if road is None and "road" in run and "ddr_bytes_per_cycle" not in found:
            road = run["road"], run["mts"]
        elif road == ("plain", 0) and "road" in run:
            values["ddr_bytes_per_cycle"] = own.bytes_per_cycle
    values |= found
    if road and road[0] != "plain":
        return ROADS[road[0]].speed(road[1], values["ddr_latency"], ports)
    return DdrSpeed(values["ddr_bytes_per_cycle"], values["ddr_latency"])


def _is_written(run: Mapping[str, Any]) -> bool:
    """Whether these entries of a run's `ddr` are such as `ddr_figures` makes."""
    name, mts = run.get("road", "plain"), run.get("mts", 0)
    if not (type(name) is str and name in ROADS and type(mts) is int and mts in ROADS[name].planned):
        return False
    return all(_is_legal(run.get(figure), name) for name, figure in zip(DDR_LIMITS, DDR_FIGURES, strict=True))


def _is_legal(value: Any, name: str) -> bool:
    low, high = DDR_LIMITS[name]
    return type(value) is int and low <= value <= high
