"""`cnna.run`: a compiled model answers samples on a device, and is compared with its other executions and with another model."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.host.board.overlay import is_virtual
from cnna.host.model.answers import WHOLE, compare_answers, named, outputs_of
from cnna.host.model.session import BIT, InferenceSession
from cnna.host.samples.arrays import Arrays, write_arrays
from cnna.host.samples.rows import Rows
from cnna.jobs import against as comparing
from cnna.jobs.data import Data, Prepared, Table, called, check_channels, opened, prepared, table_of
from cnna.jobs.given import GivenModel, Progress, Warn, Warnings, name_of, quiet, with_tools
from cnna.jobs.options.ddr import Ddr, ddr_figures
from cnna.jobs.options.metrics import Metrics, first_of, metrics_given
from cnna.jobs.report import GivenArtifact, artifact_of
from cnna.jobs.result import ASIDE, OPTIONAL, Result
from cnna.jobs.stage_seconds import StageSeconds
from cnna.spec.artifact import Artifact
from cnna.spec.device import Device
from cnna.spec.errors import CheckError, DataError, UserError
from cnna.spec.files import check_outputs
from cnna.spec.host_time.end_to_end import ALONE
from cnna.spec.metrics import RunRecords, summary
from cnna.spec.samples.preprocess import NORMALISATION, from_entry

RTL, BOARD = "rtl", "pynq"
SIMULATING = "simulating clocks"
WAVEFORM = ".fst"
OF_RTL = ("trace", "from_cycle", "to_cycle")  # options of a waveform


@dataclass(frozen=True, eq=False, kw_only=True)
class Ran(Result):
    """A run's figures (docs/simulation.md), and its answers. What the device does not count is None.

    ddr: that was simulated. pictures: how they became the input. against: how far it is from another model. answers: by output
    name, the samples in the first axis. agreement, cpu_agreement: what `check` found. traced: whether the run reached the clock
    from which a waveform was to be written. stage_seconds: of this computer. samples: how many ran. compared: as `against`, for
    programs. notes: the lines that `warn` got.
    """

    name: str
    config: str
    device: str
    batch: int
    macs: int
    cpu_macs: int
    cycles: float | None
    mac_utilization: float | None
    clock_mhz: int
    fps: float | None
    fps_at_300mhz: float | None
    fps_end_to_end: float | None
    cpu_seconds: float | None
    ddr_read_bytes: float | None
    ddr_write_bytes: float | None
    stalls: Mapping[str, Any]
    matches_reference: bool | None
    wall_seconds: float
    stage_seconds: Mapping[str, float]
    programs: Sequence[Mapping[str, Any]]
    layers: Sequence[Mapping[str, Any]]
    ddr: Mapping[str, Any] | None
    pictures: Mapping[str, Any] | None = field(metadata=OPTIONAL)
    against: Mapping[str, Any] | None = field(metadata=OPTIONAL)
    answers: Arrays = field(metadata=ASIDE)
    agreement: str | None = field(metadata=ASIDE)
    cpu_agreement: str | None = field(metadata=ASIDE)
    traced: bool = field(metadata=ASIDE)
    samples: int = field(metadata=ASIDE)
    on_pictures: str | None = field(metadata=ASIDE)
    compared: comparing.Against | None = field(metadata=ASIDE)
    notes: tuple[str, ...] = field(metadata=ASIDE)

    def __str__(self) -> str:
        many = f"{self.samples} sample{'s' * (self.samples != 1)}"
        line = f"{many} on {self.device} ({self.config}) in {self.wall_seconds:.1f} s"
        if self.cycles:
            line += (
                f"; {self.cycles:,.0f} clocks for a batch of {self.batch}, MAC utilisation {self.mac_utilization:.1%}, "
                f"{self.fps:,.0f} images a second {ALONE} at {self.clock_mhz} MHz"
            )
        stages = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.stage_seconds.items())
        lines = [*filter(None, (self.on_pictures,)), line, f"by stage: {stages}"]
        lines += filter(None, (self.agreement, self.cpu_agreement))
        return "\n".join([*lines, *(comparing.lines(self.compared) if self.compared else [])])


@with_tools
def run(
    artifact: GivenArtifact,
    data: Data,
    *,
    device: Any = "emulator",
    check: bool = False,
    against: "GivenModel | None" = None,
    metrics: Metrics | None = None,
    limit: int | None = None,
    preprocess: Table | None = None,
    trace: str | PathLike[str] | None = None,
    from_cycle: int | None = None,
    to_cycle: int | None = None,
    ddr: Ddr | None = None,
    cache: str | PathLike[str] | None = None,
    output: str | PathLike[str] | None = None,
    progress: Progress | None = None,
    warn: Warn | None = None,
) -> Ran:
    """Runs all samples; a session is the way to run a model again and again.

    device: as of `InferenceSession`. check: compare every tensor with the other executions; of a board, its outputs. against: a
    model that it is compared with tensor by tensor, such as the float one; metrics: by which outputs are judged then. limit: the
    first so many samples. preprocess: in the place of what the model stores. trace, from_cycle, to_cycle: a waveform in FST, of the
    RTL; ddr, cache: of the RTL too. output: a .npz for the answers. UserError: an argument does not fit. CheckError: two
    executions differ; its `figures` are those of the run. RunError: the accelerator stopped.
    """
    tell, warnings, judged = progress or quiet, Warnings(warn), metrics_given(metrics)
    found, where = artifact_of(artifact), _on(device)
    options = _options(where, (limit, from_cycle, to_cycle), trace, ddr or Ddr(), cache)
    if judged and against is None:
        raise UserError(f"--metric {first_of(judged)}: it judges what --against M.onnx compares; give that too")
    if output is not None:
        check_outputs({"output": Path(output)}, ())
    inputs, pictures = _inputs(found, data, table_of(preprocess), limit, warnings)
    on_pictures = None if pictures is None else f"{called(data)}: {pictures}"
    other = None if against is None else comparing.open_other(against, found, inputs)
    if other is not None:
        comparing.check_metrics(found, other, judged)
    done = _done(found, inputs, device, check, options, tell, pictures, other is not None)
    if output is not None:
        write_arrays(Path(output), done["answers"])
    original = done.pop("original")
    compared = None
    if other is not None and against is not None:
        count = partial(_count, tell, "comparing")
        compared = comparing.compare(found, inputs, done["answers"], other, count, judged, original)
        if not compared.worst:
            raise DataError(
                f"{name_of(against)}: no tensor and no answer of it has the shape of one in the .cnna: not the same model"
            )
    return Ran(
        **done, against=compared.figures() if compared else None, compared=compared, on_pictures=on_pictures, notes=warnings.lines
    )


def _count(tell: Progress, what: str, done: int, total: int) -> None:
    tell(done, total, what)


def _done(
    artifact: Artifact,
    inputs: dict[str, Rows],
    device: Any,
    check: bool,
    options: dict[str, Any],
    tell: Progress,
    pictures: Prepared | None,
    compared: bool,
) -> dict[str, Any]:
    """The run: its figures and answers, and what a comparison needs. CheckError: with the figures of a run that differs."""
    where, started, samples = _on(device), time.perf_counter(), len(next(iter(inputs.values())))
    clock = StageSeconds()
    figures: dict[str, Any] = {"ddr": ddr_figures(options.get("ddr", {}), artifact.config) if where == RTL else None}
    figures["pictures"] = None if pictures is None else pictures.figures()
    clocks = artifact.predicted_clocks() * -(-samples // artifact.manifest["batch"]) if where == RTL else 0
    try:
        tell(0, 0, "opening the device")
        with _session(artifact, device, check, options, tell, clocks) as session:
            clock.ends("opening")
            tell(0, 0, f"running on {where}")
            watched = _watched(inputs, tell, where, clocks, clock)
            answers: Arrays = named(outputs_of(artifact.manifest), session.run(None, watched))
            clock.ends("running", "reading")
            found = {
                **session.last,
                **figures,
                "stage_seconds": clock.seconds,
                "agreement": _text(session.agreement),
                "cpu_agreement": _text(session.cpu_agreement),
            }
            if where == BOARD:
                if isinstance(device, str | PathLike) and is_virtual(Path(device)):
                    found["fps_end_to_end"] = None  # the seconds of a simulation are not a board's
                if check:
                    found |= {"agreement": _checked_board(artifact, inputs, answers), "matches_reference": True}
            traced = "trace" not in options or _traced(session.device)
            return {
                **found,
                "answers": answers,
                "samples": samples,
                "traced": traced,
                "original": session.original if compared else None,
            }
    except CheckError as error:
        runs = [RunRecords()] * len(artifact.programs)
        error.figures = {**summary(artifact, where, runs, time.perf_counter() - started, False), **figures}
        raise


def _text(found: Any) -> str | None:
    return str(found) if found else None


def _on(device: Any) -> str:
    """What figures call the device."""
    if isinstance(device, str | PathLike):
        return BOARD if Path(device).suffix == BIT else str(device)
    return BOARD if hasattr(device, "ip_dict") else getattr(device, "name", BOARD)


def _watched(inputs: dict[str, Rows], tell: Progress, where: str, clocks: int, clock: StageSeconds) -> dict[str, Rows]:
    """The inputs; when samples of the first are read, those before them are done. clocks: of the whole run, on the RTL; else 0."""
    name, rows = next(iter(inputs.items()))

    def read(start: int, stop: int) -> NDArray[Any]:
        if clocks:
            tell(start * clocks // len(rows), clocks, SIMULATING)
        else:
            tell(start, len(rows), f"running on {where}")
        began = time.perf_counter()
        found = rows.read(start, stop)
        clock.adds("reading", began)
        return found

    return {**inputs, name: replace(rows, read=read)}


def _session(
    artifact: Artifact, device: Any, check: bool, options: dict[str, Any], tell: Progress, clocks: int
) -> InferenceSession:
    """The model on the device. clocks: as many as the RTL will take; 0: another device."""
    if not clocks:
        return InferenceSession(artifact, device, check=check and _on(device) != BOARD, **options)
    count = {"say": lambda what: tell(0, 0, what), "count": lambda done: tell(done, clocks, SIMULATING)}
    return InferenceSession(artifact, device, check=check, **options, **count)


def _traced(device: Device | None) -> bool:
    """Whether the simulation has written a waveform, that is, has reached its first clock."""
    from cnna.sim.rtl.cosim import CosimDevice

    return isinstance(device, CosimDevice) and device.traced


def _checked_board(artifact: Artifact, inputs: dict[str, Rows], answers: Arrays) -> str:
    """Compares a board's outputs with the reference's: a board shows nothing else. CheckError: the first difference."""
    with InferenceSession(artifact, "reference") as reference:
        wanted = named(outputs_of(artifact.manifest), reference.run(None, inputs))
        return compare_answers("board", answers, "reference", wanted)


def _options(
    where: str,
    numbers: tuple[int | None, int | None, int | None],
    trace: str | PathLike[str] | None,
    ddr: Ddr,
    cache: str | PathLike[str] | None,
) -> dict[str, Any]:
    """Options to open the device with. UserError: a number that no run has, or the device has no use for what is given."""
    limit, first, last = numbers
    for option, value, least in (("limit", limit, 1), ("from-cycle", first, 0), ("to-cycle", last, first or 0)):
        if value is not None and value < least:
            above = f"--from-cycle {least}" if option == "to-cycle" and least else str(least)
            raise UserError(f"--{option} {value}: must be at least {above}")
    given = {"trace": None if trace is None else Path(trace), "from_cycle": first, "to_cycle": last}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if trace is not None and Path(trace).suffix.lower() != WAVEFORM:
        raise UserError(f"--trace {trace}: the waveform is in FST format; give it a name that ends in {WAVEFORM}")
    simulated = ddr.simulated()
    if where != RTL and simulated:
        raise UserError(f"--ddr, --ddr-bytes-per-cycle, --ddr-latency and --ddr-mts are for --device rtl, not {where}")
    if where != RTL and options:
        raise UserError(f"--trace, --from-cycle and --to-cycle are for --device rtl, not {where}")
    if trace is None and options:
        raise UserError("--from-cycle and --to-cycle say which part --trace writes: give --trace too")
    if where == RTL and cache is not None:
        from cnna.sim.rtl.cache import private

        options["cache"] = private(Path(cache))
    return {**options, **({"ddr": simulated} if simulated else {})}


def _inputs(
    artifact: Artifact, data: Data, given: Mapping[str, Any], limit: int | None, warn: Warn
) -> tuple[dict[str, Rows], Prepared | None]:
    """The samples to run, by input name, which are read batch by batch; and what is done to pictures."""
    entries, name = artifact.manifest["model_inputs"], artifact.manifest["name"]
    wanted = {entry["name"]: entry["shape"] for entry in entries}
    types = {entry["name"]: entry["dtype"] for entry in entries if entry["dtype"] in WHOLE}
    table = {**(artifact.manifest["preprocess"] or {}), **given}
    inputs = opened(data, wanted, types, table, limit, warn)
    pictures = prepared(data, wanted, types, table, limit)
    if not any(key in given for key in (*NORMALISATION, "layout")):
        return inputs, pictures
    how = from_entry(table, name, strict=False)
    check_channels(how, wanted, name, given)
    floats = {
        each: rows.mapped(how.apply, np.float32) if rows.dtype == np.uint8 and each not in types else rows
        for each, rows in inputs.items()
    }
    return floats, pictures
