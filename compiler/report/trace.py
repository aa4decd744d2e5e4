"""The timeline in Chrome's trace format: a row for each engine, a bar for each command (chrome://tracing, Perfetto)."""

from collections.abc import Mapping, Sequence
from typing import Any

from cnna.compiler.predict.timeline import Bar, in_a_row, predicted_bars
from cnna.compiler.report.report import bars_measured, layers_of
from cnna.spec.artifact import Artifact
from cnna.spec.ddr import DdrSpeed
from cnna.spec.regmap import ENGINES

PREDICTED, MEASURED = 1, 2  # process numbers


def trace(artifact: Artifact, measured: Mapping[str, Any] | None = None, memory: DdrSpeed | None = None) -> dict[str, Any]:
    """The trace as a JSON object. Times are in microseconds of the configuration's clock.

    measured: figures of `cnna run --json`. Their rows of engines stand below the predicted ones. Figures without `unit_clocks` give
    one row of layers instead, one after another. DataError: they are of another program.
    """
    predicted = in_a_row((program, predicted_bars(program, memory)) for program in artifact.programs)
    events = _rows(artifact, PREDICTED, "predicted", predicted, ENGINES)
    run = measured or {}
    if (bars := bars_measured(artifact, run)) is not None:
        engines = [engine for engine in ENGINES if engine in run["programs"][0]["unit_clocks"]]
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
