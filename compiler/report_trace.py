"""The predicted timeline in Chrome's trace format: a row for each engine, a bar for each command (chrome://tracing, Perfetto)."""

from collections.abc import Mapping
from typing import Any

from cnna.compiler.cost import timeline
from cnna.host.artifact import Artifact
from cnna.hw.regmap import ENGINES

PREDICTED, MEASURED = 1, 2  # process numbers


def trace(artifact: Artifact, measured: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The trace as a JSON object, times in microseconds of the configuration's clock.

    measured: figures of `cnna run --json`; their layers follow one another in a row of their own.
    """
    manifest, clock = artifact.manifest, artifact.config.clock_mhz
    events = [_name("process_name", PREDICTED, 0, "predicted")]
    events += [_name("thread_name", PREDICTED, number, engine) for number, engine in enumerate(ENGINES)]
    for span, command in zip(timeline(artifact.program, artifact.config), manifest["commands"], strict=True):
        layer = manifest["layers"][command["layer"]]["name"] if manifest["layers"] else "copy"
        arguments = {"tensor": command["tensor"], "origin": command["origin"], "clocks": span.end - span.begin}
        events.append(
            _bar(layer, PREDICTED, ENGINES.index(span.engine), span.begin / clock, (span.end - span.begin) / clock, arguments)
        )
    if measured:
        events += [_name("process_name", MEASURED, 0, "measured"), _name("thread_name", MEASURED, 0, "layers")]
        begin = 0.0
        for figures in measured["layers"]:
            duration = (figures["cycles"] or 0) / clock
            events.append(_bar(figures["name"], MEASURED, 0, begin, duration, {"stalls": figures["stalls"]}))
            begin += duration
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def _name(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _bar(name: str, process: int, thread: int, begin: float, duration: float, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "X", "name": name, "pid": process, "tid": thread, "ts": begin, "dur": duration, "args": arguments}
