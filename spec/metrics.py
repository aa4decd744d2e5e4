"""The figures of a run, in the form that `cnna run --json` writes. What was not measured is None, never 0."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cnna.spec.artifact import Artifact, ProgramPiece
from cnna.spec.config import BEAT_BYTES
from cnna.spec.manifest import LayerEntry
from cnna.spec.regmap import COUNTED, STALLS

REPORT_MHZ = 300  # the clock of `fps_at_300mhz`, by which figures of all configurations compare

Figures = dict[str, Any]


@dataclass(frozen=True)
class RunRecords:
    """What was observed in the runs of one program.

    counters: of each run, empty where nothing counts clocks. profile: of the last run, for every layer {cycles, stalls,
    ddr_read_bytes, ddr_write_bytes}, which sum to the run's counters. timeline: of the last run, (clock since start, engine, units
    finished by then) each time that an engine finished units. weights: of the last run, (clock of the first beat, of the last one)
    of each weight command.
    """

    counters: Sequence[Mapping[str, int]] = ()
    profile: Sequence[Mapping[str, Any]] | None = None
    timeline: Sequence[tuple[int, str, int]] | None = None
    weights: Sequence[tuple[int, int]] | None = None


def summary(
    artifact: Artifact,
    device: str,
    runs: Sequence[RunRecords],
    wall_seconds: float,
    matches_reference: bool | None,
    cpu_seconds: float | None = None,
    samples_per_second: float | None = None,
) -> Figures:
    """All figures of some runs of one artifact. runs: those of each program, in the programs' order.

    Clocks, bytes and layers of several programs are added up, since they run one after another. cpu_seconds: of the pieces on the
    CPU, for one sample. samples_per_second: from the user's arrays to the answers, on a board.
    """
    manifest = artifact.manifest
    programs = [_program(program, seen) for program, seen in zip(artifact.programs, runs, strict=True)]
    config, batch, macs = artifact.config, manifest["batch"], manifest["macs"]
    cycles, peak = _total(program["cycles"] for program in programs), config.macs
    return {
        "name": manifest["name"],
        "config": config.name,
        "device": device,
        "batch": batch,
        "macs": macs,
        "cpu_macs": manifest["cpu_macs"],
        "cycles": cycles,
        "mac_utilization": macs * batch / (cycles * peak) if cycles else None,
        "clock_mhz": config.clock_mhz,
        "fps": batch * config.clock_mhz * 1e6 / cycles if cycles else None,
        "fps_at_300mhz": batch * REPORT_MHZ * 1e6 / cycles if cycles else None,
        "fps_end_to_end": samples_per_second,
        "cpu_seconds": cpu_seconds,
        "ddr_read_bytes": _total(program["ddr_read_bytes"] for program in programs),
        "ddr_write_bytes": _total(program["ddr_write_bytes"] for program in programs),
        "stalls": {cause: _total(program["stalls"][cause] for program in programs) for cause in STALLS},
        "matches_reference": matches_reference,
        "wall_seconds": wall_seconds,
        "programs": [{name: program[name] for name in ("cycles", "unit_clocks", "weight_clocks")} for program in programs],
        "layers": [layer for program in programs for layer in program["layers"]],
    }


def _program(program: ProgramPiece, seen: RunRecords) -> Figures:
    """The figures of one program."""
    measured = [run for run in seen.counters if run["cycles"]]
    manifest, config = program.manifest, program.config
    layers = [
        _layer(entry, seen.profile[index] if seen.profile else None, manifest["batch"], config.macs)
        for index, entry in enumerate(manifest["layers"])
    ]
    return {
        "cycles": _mean(run["cycles"] for run in measured),
        "ddr_read_bytes": _mean(_beats(run, "read") * BEAT_BYTES for run in measured),
        "ddr_write_bytes": _mean(_beats(run, "write") * BEAT_BYTES for run in measured),
        "stalls": {cause: _mean(run[f"stall_{cause}"] for run in measured) for cause in STALLS},
        "unit_clocks": _unit_clocks(seen.timeline) if seen.timeline is not None else None,
        "weight_clocks": [list(clocks) for clocks in seen.weights] if seen.weights is not None else None,
        "layers": layers,
    }


def _total(values: Iterable[int | float | None]) -> int | float | None:
    """The sum of the values; None if one was not measured, or if there are none."""
    found = list(values)
    return sum(value for value in found if value is not None) if found and None not in found else None


def _mean(values: Any) -> int | float | None:
    found = list(values)
    if not found:
        return None
    mean = sum(found) / len(found)
    return int(mean) if mean == int(mean) else mean


def _beats(run: Mapping[str, int], kind: str) -> int:
    return sum(value for name, value in run.items() if name.startswith(f"{kind}_beats"))


def _unit_clocks(timeline: Sequence[tuple[int, str, int]]) -> dict[str, list[int]]:
    """For each engine, the clocks from start at which it finished its first, second, ... unit.

    Counts begin with those of the run before, until the start clears them.
    """
    clocks: dict[str, list[int]] = {engine: [] for engine in COUNTED}
    for clock, engine, units in timeline:
        del clocks[engine][units:]
        clocks[engine] += [clock] * (units - len(clocks[engine]))
    return clocks


def _layer(entry: LayerEntry, measured: Mapping[str, Any] | None, batch: int, peak: int) -> Figures:
    """One layer: what the compiler knows (of a batch), and what was measured, if it was; MACs are of one image."""
    cycles = measured["cycles"] if measured else None
    return {
        "name": entry["name"],
        "op": entry["op"],
        "engine": entry["engine"],
        "macs": entry["macs"] // batch,
        "cycles": cycles,
        "mac_utilization": entry["macs"] / (cycles * peak) if cycles and entry["engine"] == "conv" else None,
        "ddr_read_bytes": measured["ddr_read_bytes"] if measured else None,
        "ddr_write_bytes": measured["ddr_write_bytes"] if measured else None,
        "stalls": measured["stalls"] if measured else None,
    }
