"""`cnna run`: runs a .cnna on the simulated RTL, the emulator, the reference or a board, and compares them on demand."""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.cli.main import Outcome
from cnna.cli.metric_options import add_metric_option, given_metrics
from cnna.cli.options import add_cache_option, add_ddr_options, add_road_options, ddr_options
from cnna.cli.picture_options import add_picture_options, given_preprocess, say_preparation
from cnna.cli.progress import Progress, counter
from cnna.host.board.overlay import is_virtual, open_overlay
from cnna.host.model.answers import WHOLE, compare_answers, named, outputs_of
from cnna.host.model.session import InferenceSession
from cnna.host.samples.arrays import Arrays, write_arrays
from cnna.host.samples.given import open_samples
from cnna.host.samples.rows import Rows
from cnna.jobs import against
from cnna.jobs.data import check_channels
from cnna.jobs.ddr import ddr_figures
from cnna.spec.artifact import Artifact, load
from cnna.spec.device import Device
from cnna.spec.errors import CheckError, DataError, UserError
from cnna.spec.files import read_bytes
from cnna.spec.host_time.end_to_end import ALONE
from cnna.spec.metrics import RunRecords, summary
from cnna.spec.samples.preprocess import NORMALISATION, from_entry

OUTPUTS = {"output": (".npz",), "trace": ()}
DEVICES = ("rtl", "emulator", "reference", "pynq")
TOP = 5
SIMULATING = "simulating clocks"
WAVEFORM = ".fst"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("artifact", type=Path, metavar="M.cnna", help="the compiled model")
    parser.add_argument("--input", type=Path, required=True, metavar="X", help=".npy, .npz or a folder of pictures")
    parser.add_argument(
        "--device", choices=DEVICES, default="rtl", help="what runs the model (default: rtl, under Verilator; pynq: a board)"
    )
    parser.add_argument(
        "--overlay", type=Path, metavar="cnna.bit", help="the overlay that pynq loads, with its .hwh in the same folder (pynq)"
    )
    parser.add_argument("--check", action="store_true", help="compare every tensor with the other executions")
    parser.add_argument("--against", type=Path, metavar="M.onnx", help="compare with the float model, or another, tensor by tensor")
    add_metric_option(parser)
    parser.add_argument("--limit", type=int, metavar="N", help="run only the first N samples")
    parser.add_argument("-o", "--output", type=Path, metavar="Y.npz", help="write the answers, by output name")
    parser.add_argument("--labels", type=Path, metavar="F", help="print the best classes of each sample; F has one name a line")
    parser.add_argument("--top", type=int, default=TOP, metavar="K", help=f"how many classes to print (default: {TOP})")
    parser.add_argument("--trace", type=Path, metavar="F.fst", help="write a waveform (rtl)")
    parser.add_argument("--from-cycle", type=int, metavar="N", help="first clock of the waveform")
    parser.add_argument("--to-cycle", type=int, metavar="N", help="last clock of the waveform")
    add_cache_option(parser)
    add_picture_options(parser, "in the place of what the model stores")
    add_ddr_options(parser)
    add_road_options(parser)


def run(args: argparse.Namespace) -> Outcome:
    """Runs all samples; code 1 if a check finds a difference."""
    _check_values(args)
    artifact = load(args.artifact)
    options = _device_options(args)
    labels = _labels(args.labels, artifact) if args.labels else None
    inputs, prepared = _inputs(args, artifact)
    if "cache" in options:
        from cnna.sim.rtl.cache import private

        private(args.cache)
    other = against.open_other(args.against, artifact, inputs) if args.against else None
    if other:
        against.check_metrics(artifact, other, given_metrics(args))
    started = time.perf_counter()
    ddr = ddr_figures(options.get("ddr", {}), artifact.config) if args.device == "rtl" else None
    try:
        clocks = artifact.predicted_clocks() * -(-len(next(iter(inputs.values()))) // artifact.manifest["batch"])
        with Progress("opening the device") as progress, _session(args, artifact, options, progress, clocks) as session:
            progress.say(f"running on {args.device}")
            fed = _watched(inputs, progress, clocks if args.device == "rtl" else 0)
            answers: Arrays = named(outputs_of(artifact.manifest), session.run(None, fed))
            figures, agreement, cpu_agreement = {**session.last, "ddr": ddr}, session.agreement, session.cpu_agreement
            if args.device == "pynq" and is_virtual(args.overlay):
                figures["fps_end_to_end"] = None  # the seconds of a simulation are not a board's
            if args.device == "pynq" and args.check:
                agreement = _checked_board(artifact, inputs, answers)
                figures["matches_reference"] = True
            untraced = args.trace is not None and not _traced(session.device)
    except CheckError as error:
        print(error, file=sys.stderr)
        figures = summary(artifact, args.device, [RunRecords()] * len(artifact.programs), time.perf_counter() - started, False)
        return Outcome({**figures, "ddr": ddr, **prepared}, error.exit_code)
    figures |= prepared
    if args.output:
        write_arrays(args.output, answers)
    samples = len(next(iter(inputs.values())))
    if labels:
        _print_top(outputs_of(artifact.manifest)[0].apart(answers, samples), labels, args.top)
    _print_figures(figures, samples)
    if args.check and agreement:
        print(agreement)
    if args.check and cpu_agreement:
        print(cpu_agreement)
    if other:
        found = against.compare(artifact, inputs, answers, other, counter("comparing"), given_metrics(args), session.original)
        if not found.worst:
            raise DataError(f"{args.against}: no tensor and no answer of it has the shape of one in the .cnna: not the same model")
        figures["against"] = found.figures()
        print("\n".join(against.lines(found)))
    if untraced:
        print(
            f"cnna: --from-cycle {args.from_cycle}: the run ended before that clock; {args.trace} is not written", file=sys.stderr
        )
    written = tuple(path for path in (args.output, None if untraced else args.trace) if path)
    return Outcome(figures, UserError.exit_code if untraced else 0, written)


def _watched(inputs: dict[str, Rows], progress: Progress, clocks: int) -> dict[str, Rows]:
    """The inputs; when samples of the first are read, those before them are done. clocks: of the whole run, on the RTL alone."""
    name, rows = next(iter(inputs.items()))

    def read(start: int, stop: int) -> NDArray[Any]:
        if clocks:
            progress.count(start * clocks // len(rows), clocks, SIMULATING)
        else:
            progress.count(start, len(rows))
        return rows.read(start, stop)

    return {**inputs, name: replace(rows, read=read)}


def _session(
    args: argparse.Namespace, artifact: Artifact, options: dict[str, Any], progress: Progress, clocks: int
) -> InferenceSession:
    """The model on the device that the options name. clocks: as many as the RTL will take."""
    if args.device == "rtl":
        options = {**options, "say": progress.say, "count": lambda done: progress.count(done, clocks, SIMULATING)}
    if args.device != "pynq":
        return InferenceSession(artifact, args.device, check=args.check, **options)
    return InferenceSession(artifact, open_overlay(args.overlay))


def _traced(device: Device | None) -> bool:
    """Whether the simulation has written a waveform, that is, has reached its first clock."""
    from cnna.sim.rtl.cosim import CosimDevice

    return isinstance(device, CosimDevice) and device.traced


def _checked_board(artifact: Artifact, inputs: dict[str, Rows], answers: Arrays) -> str:
    """Compares a board's outputs with the reference's: a board shows nothing else. CheckError: the first difference."""
    with InferenceSession(artifact, "reference") as reference:
        wanted = named(outputs_of(artifact.manifest), reference.run(None, inputs))
        return compare_answers("board", answers, "reference", wanted)


def _check_values(args: argparse.Namespace) -> None:
    """UserError: a number that no run has, or a waveform whose name does not fit its format."""
    for option, value, least in (
        ("--limit", args.limit, 1),
        ("--top", args.top, 1),
        ("--from-cycle", args.from_cycle, 0),
        ("--to-cycle", args.to_cycle, args.from_cycle or 0),
    ):
        if value is not None and value < least:
            above = f"--from-cycle {least}" if option == "--to-cycle" and least else str(least)
            raise UserError(f"{option} {value}: must be at least {above}")
    if given_metrics(args) and args.against is None:
        raise UserError(f"--metric {args.metric[0]}: it judges what --against M.onnx compares; give that too")
    if (args.device == "pynq") != (args.overlay is not None):
        raise UserError("--overlay names what --device pynq loads: give both, or neither")
    if args.trace is not None and args.trace.suffix.lower() != WAVEFORM:
        raise UserError(f"--trace {args.trace}: the waveform is in FST format; give it a name that ends in {WAVEFORM}")


def _device_options(args: argparse.Namespace) -> dict[str, Any]:
    """Options to open the device with. UserError: the device has no use for a given option."""
    given = {
        "trace": args.trace,
        "from_cycle": args.from_cycle,
        "to_cycle": args.to_cycle,
        "cache": args.cache,
    }
    options = {name: value for name, value in given.items() if value is not None}
    ddr = ddr_options(args).simulated()
    if args.device != "rtl" and ddr:
        raise UserError(f"--ddr, --ddr-bytes-per-cycle, --ddr-latency and --ddr-mts are for --device rtl, not {args.device}")
    if args.device != "rtl" and set(options) - {"cache"}:
        raise UserError(f"--trace, --from-cycle and --to-cycle are for --device rtl, not {args.device}")
    if args.trace is None and set(options) & {"from_cycle", "to_cycle"}:
        raise UserError("--from-cycle and --to-cycle say which part --trace writes: give --trace too")
    return {**options, **({"ddr": ddr} if ddr else {})} if args.device == "rtl" else {}


def _inputs(args: argparse.Namespace, artifact: Artifact) -> tuple[dict[str, Rows], dict[str, Any]]:
    """The samples to run, by input name, which are read batch by batch; and figures of what is done to pictures."""
    entries = artifact.manifest["model_inputs"]
    wanted = {entry["name"]: entry["shape"] for entry in entries}
    types = {entry["name"]: entry["dtype"] for entry in entries if entry["dtype"] in WHOLE}
    given = given_preprocess(args)
    table = {**(artifact.manifest["preprocess"] or {}), **given}
    inputs = open_samples(args.input, wanted, types, table, args.limit)
    prepared = say_preparation(args.input, wanted, types, table, args.limit)
    if not any(key in given for key in (*NORMALISATION, "layout")):
        return inputs, prepared
    how = from_entry(table, str(args.artifact), strict=False)
    check_channels(how, wanted, str(args.artifact), given)
    floats = {
        name: rows.mapped(how.apply, np.float32) if rows.dtype == np.uint8 and name not in types else rows
        for name, rows in inputs.items()
    }
    return floats, prepared


def _labels(path: Path, artifact: Artifact) -> list[str]:
    """The class names. DataError: the file is not text, or has not one name for each class of the first output."""
    try:
        names = read_bytes(path).decode().splitlines()
    except UnicodeDecodeError:
        raise DataError(f"{path}: not a text file") from None
    output = outputs_of(artifact.manifest)[0]
    if output.elements is None:
        raise DataError(f"--labels {path}: output {output.name} has no fixed number of classes; leave --labels out")
    if len(names) != output.elements:
        raise DataError(f"{path}: has {len(names)} names, but output {output.name} has {output.elements} classes")
    return names


def _print_top(answers: list[NDArray[Any]], labels: list[str], top: int) -> None:
    """Prints a line for each sample: the names of its greatest values, greatest first."""
    for sample, answer in enumerate(answers):
        scores = answer.reshape(-1).astype(np.float64)
        best = np.argsort(-scores, kind="stable")[:top]
        print(f"{sample:4}: " + ", ".join(f"{labels[index]} {scores[index]:.4g}" for index in best))


def _print_figures(figures: dict[str, Any], samples: int) -> None:
    line = f"{samples} sample{'s' * (samples != 1)} on {figures['device']} ({figures['config']}) in {figures['wall_seconds']:.1f} s"
    if figures["cycles"]:
        line += (
            f"; {figures['cycles']:,.0f} clocks for a batch of {figures['batch']}, "
            f"MAC utilisation {figures['mac_utilization']:.1%}, "
            f"{figures['fps']:,.0f} images a second {ALONE} at {figures['clock_mhz']} MHz"
        )
    print(line)
