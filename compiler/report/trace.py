"""The timeline in Chrome's trace format: a row for each engine, a bar for each command (chrome://tracing, Perfetto).

Arrows lead from a command to those that wait for it, and tracks count the bytes that DDR moves and the words in
the weight rings. The host has a row on the same line of time: it packs the next batch while the accelerator runs, and completes
this one behind it. Below are some batches of a stream: their runs with the gaps between them, and the host beside them. The
format: "Trace Event Format",
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cnna.compiler.predict.timeline import Bar, in_a_row, last_clock, predicted_bars
from cnna.compiler.report.over_time import ddr_over_time, rings_over_time
from cnna.compiler.report.report import bars_measured, layers_of
from cnna.spec.artifact import Artifact
from cnna.spec.ddr import DdrSpeed
from cnna.spec.host_time.cortex_a53 import Range
from cnna.spec.host_time.detector_time import to_answer
from cnna.spec.host_time.end_to_end import EndToEnd
from cnna.spec.host_time.host_model import PIECE_FACTOR
from cnna.spec.manifest import ACCELERATOR, CPU
from cnna.spec.program.commands import commands
from cnna.spec.regmap import COUNTED, ENGINES

PREDICTED, MEASURED, HOST, STREAM = 1, 2, 3, 4  # process numbers
BATCHES = 4  # of a stream, that are drawn


def trace(
    artifact: Artifact, measured: Mapping[str, Any] | None = None, memory: DdrSpeed | None = None, native: bool = True
) -> dict[str, Any]:
    """The trace as a JSON object. Times are in microseconds of the configuration's clock.

    measured: figures of `cnna run --json`. Their rows of engines stand below the predicted ones; weights have one if the run has
    `weight_clocks`. Figures without `unit_clocks` give one row of layers instead, one after another. DataError: they are of another
    program. native: whether the host has its native library; its stages are modelled, and their bars end at the middle.
    """
    predicted = in_a_row((program, predicted_bars(program, memory)) for program in artifact.programs)
    events = _rows(artifact, PREDICTED, "predicted", predicted, ENGINES)
    events += [*_arrows(artifact, predicted), *_ddr(artifact, predicted), *_rings(artifact, predicted)]
    events += _host(artifact, predicted, memory, native)
    events += _stream(artifact, last_clock(predicted), native)
    run = measured or {}
    if (bars := bars_measured(artifact, run)) is not None:
        engines = [engine for engine in ENGINES if engine in COUNTED or any(bar.engine == engine for bar in bars)]
        events += _rows(artifact, MEASURED, f"measured ({run['device']})", bars, engines)
    elif run.get("cycles"):
        events += _layers(artifact, run)
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def _rows(artifact: Artifact, process: int, name: str, bars: Sequence[Bar], engines: Sequence[str]) -> list[dict[str, Any]]:
    """A process with a row for each engine."""
    clock, layers = artifact.config.clock_mhz, layers_of(artifact)
    commands = [entry for program in artifact.programs for entry in program.manifest["commands"]]
    events = [_name("process_name", process, 0, name)]
    events += [_name("thread_name", process, ENGINES.index(engine), engine) for engine in engines]
    for bar in bars:
        command = commands[bar.command]
        layer = layers[bar.layer]["name"] if layers else "copy"
        about = {
            "command": bar.command,
            "tensor": command["tensor"],
            "image, block, row, column": command["origin"],
            "first clock": bar.begin,
            "clocks": bar.end - bar.begin,
        }
        row = ENGINES.index(bar.engine)
        events.append(_bar(layer, process, row, bar.begin / clock, (bar.end - bar.begin) / clock, about))
    return events


def dependences(artifact: Artifact) -> Iterator[tuple[int, int]]:
    """Pairs of commands, by their numbers over all programs: the second one's first unit waits for a unit of the first."""
    before = 0
    for program in artifact.programs:
        done: dict[str, list[int]] = {engine: [] for engine in COUNTED}  # units after each command that counts
        numbers: dict[str, list[int]] = {engine: [] for engine in COUNTED}
        played = list(commands(program.program))
        for command in played:
            fields = vars(command.f)
            for engine in COUNTED if command.engine != "weight" else ():
                count = fields[f"wait_{engine}_count"] if fields[f"wait_{engine}_enable"] else 0
                if count:
                    yield before + numbers[engine][bisect_left(done[engine], count)], before + command.number
            if command.engine in done:
                units = (done[command.engine] or [0])[-1] + command.units(program.config.chunk_blocks)
                done[command.engine].append(units)
                numbers[command.engine].append(command.number)
        before += len(played)


def _arrows(artifact: Artifact, bars: Sequence[Bar]) -> Iterator[dict[str, Any]]:
    """A start and an end for each dependence: from a bar to the begin of the one that waits for it, or for a part of it."""
    clock = artifact.config.clock_mhz
    for number, (first, then) in enumerate(dependences(artifact)):
        if first < then:
            shared = {"cat": "waits", "name": "waits for", "id": number, "pid": PREDICTED}
            before, after = bars[first], bars[then]
            place = min(max(before.begin, before.end - 1), after.begin)  # inside the bar, or it would be bound to the next one
            yield {"ph": "s", **shared, "tid": ENGINES.index(before.engine), "ts": place / clock}
            yield {"ph": "f", "bp": "e", **shared, "tid": ENGINES.index(after.engine), "ts": after.begin / clock}


def _host(artifact: Artifact, bars: Sequence[Bar], memory: DdrSpeed | None, native: bool) -> Iterator[dict[str, Any]]:
    """The host's stages: packing from the start on, a piece on the CPU behind the program before it, and the rest at the end."""
    manifest, clock = artifact.manifest, artifact.config.clock_mhz
    pieces, detector = manifest["pieces"], manifest.get("detector")
    found = _model(artifact, last_clock(bars), native).stages() or {}
    yield _name("process_name", HOST, 0, "host, modelled")
    yield _name("thread_name", HOST, 0, "packing; the rest of a batch")
    if "packing" in found:
        yield _stage("packing of the next batch", 0.0, found["packing"])
    begin = 0.0
    own = pieces[:-1] if detector and pieces[-1]["kind"] == CPU else pieces
    ends = iter(last_clock(predicted_bars(program, memory)) for program in artifact.programs)
    for number, piece in enumerate(own, 1):
        if piece["kind"] == ACCELERATOR:
            begin += next(ends) / clock
        elif piece["seconds"]:
            whole = Range.of(PIECE_FACTOR, manifest["batch"] * piece["seconds"])
            yield _stage(f"piece {number} on the CPU", begin, whole)
            begin += whole.middle * 1e6 if number == len(own) else 0.0
    for name in ("host", "decode"):
        if name in found:
            yield _stage(name, begin, found[name])
            begin += found[name].middle * 1e6


def _model(artifact: Artifact, clocks: int, native: bool) -> EndToEnd:
    """The model of an artifact from picture to answer. clocks: of its programs."""
    manifest = artifact.manifest
    pieces, run = manifest["pieces"], (clocks, artifact.config.clock_mhz, manifest["batch"])
    return to_answer(manifest.get("detector"), pieces, *run, native)


def _stream(artifact: Artifact, clocks: int, native: bool) -> Iterator[dict[str, Any]]:
    """Batches of a long stream: a row of runs and gaps, and one of the host's work, at the middle of the model."""
    found = _model(artifact, clocks, native)
    batch, host, gap = found.in_stream(), found.host_in_stream(), found.gap()
    if batch is None or host is None or gap is None or not artifact.programs:
        return
    yield _name("process_name", STREAM, 0, "a stream, modelled")
    for row, name in enumerate(("accelerator", "host")):
        yield _name("thread_name", STREAM, row, name)
    whole, runs = batch.middle * 1e6, (batch.middle - gap.middle) * 1e6
    for number in range(BATCHES):
        begin = number * whole
        yield _bar(f"batch {number + 1}", STREAM, 0, begin, runs, {"clocks": clocks})
        yield _bar("gap", STREAM, 0, begin + runs, gap.middle * 1e6, _ends(gap))
        yield _bar("packs and completes batches", STREAM, 1, begin, host.middle * 1e6, _ends(host))


def _stage(name: str, begin: float, seconds: Range) -> dict[str, Any]:
    return _bar(name, HOST, 0, begin, seconds.middle * 1e6, _ends(seconds))


def _ends(seconds: Range) -> dict[str, list[float]]:
    return {"us": [round(seconds.quick * 1e6, 2), round(seconds.slow * 1e6, 2)]}


def _ddr(artifact: Artifact, bars: Sequence[Bar]) -> Iterator[dict[str, Any]]:
    """A track that counts the bytes that DDR moves in a clock, by engine. It falls to zero at the end."""
    entries = ddr_over_time(artifact, bars)
    for entry in entries:
        begin = entry["begin"] / artifact.config.clock_mhz
        yield {"ph": "C", "name": "DDR bytes a clock", "pid": PREDICTED, "tid": 0, "ts": begin, "args": entry["bytes"]}
    for entry in entries[-1:]:
        end, nothing = entry["end"] / artifact.config.clock_mhz, dict.fromkeys(entry["bytes"], 0)
        yield {"ph": "C", "name": "DDR bytes a clock", "pid": PREDICTED, "tid": 0, "ts": end, "args": nothing}


def _rings(artifact: Artifact, bars: Sequence[Bar]) -> Iterator[dict[str, Any]]:
    """A track that counts the words in the weight rings."""
    for entry in rings_over_time(artifact, bars):
        begin = entry["clock"] / artifact.config.clock_mhz
        yield {"ph": "C", "name": "words in the weight rings", "pid": PREDICTED, "tid": 0, "ts": begin, "args": entry["words"]}


def _layers(artifact: Artifact, run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A process with one row, in which the clocks of the layers follow each other."""
    clock, begin = artifact.config.clock_mhz, 0.0
    events = [_name("process_name", MEASURED, 0, f"measured ({run['device']})")]
    events.append(_name("thread_name", MEASURED, 0, "layers, in sum"))
    for figures in run["layers"]:
        duration = (figures["cycles"] or 0) / clock
        events.append(_bar(figures["name"], MEASURED, 0, begin, duration, {"stalls": figures.get("stalls")}))
        begin += duration
    return events


def _name(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _bar(name: str, process: int, thread: int, begin: float, duration: float, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "X", "name": name, "pid": process, "tid": thread, "ts": begin, "dur": duration, "args": arguments}
