"""The figures of a run, in the form that `cnna run --json` writes. What was not measured is None, never 0."""

from collections.abc import Mapping, Sequence
from typing import Any

from cnna.spec.config import BEAT_BYTES
from cnna.spec.manifest import LayerEntry, Manifest
from cnna.spec.regmap import COUNTED, STALLS

REPORT_MHZ = 300  # the clock that frames a second are stated for

Figures = dict[str, Any]


def summary(
    manifest: Manifest,
    device: str,
    runs: Sequence[Mapping[str, int]],
    profile: Sequence[Mapping[str, Any]] | None,
    wall_seconds: float,
    matches_reference: bool | None,
    timeline: Sequence[tuple[int, str, int]] | None = None,
) -> Figures:
    """All figures of some runs of one artifact. `runs`: counters of each batch, empty where nothing counts clocks.

    `profile`: for every layer {cycles, stalls, ddr_read_bytes, ddr_write_bytes}, summing to the last run's counters.
    `timeline`: of the last run, (clock since start, engine, units finished by then) each time an engine finished some.
    """
    measured = [run for run in runs if run["cycles"]]
    cycles = _mean(run["cycles"] for run in measured)
    config, batch, macs = manifest["config"], manifest["batch"], manifest["macs"]
    peak = config["pix"] * config["ci"] * config["co"]
    return {
        "config": config["name"],
        "device": device,
        "batch": batch,
        "macs": macs,
        "cycles": cycles,
        "mac_utilization": macs * batch / (cycles * peak) if cycles else None,
        "fps_at_300mhz": batch * REPORT_MHZ * 1e6 / cycles if cycles else None,
        "ddr_read_bytes": _mean(_beats(run, "read") * BEAT_BYTES for run in measured),
        "ddr_write_bytes": _mean(_beats(run, "write") * BEAT_BYTES for run in measured),
        "stalls": {cause: _mean(run[f"stall_{cause}"] for run in measured) for cause in STALLS},
        "matches_reference": matches_reference,
        "wall_seconds": wall_seconds,
        "unit_clocks": _unit_clocks(timeline) if timeline is not None else None,
        "layers": [_layer(e, profile[index] if profile else None, batch, peak) for index, e in enumerate(manifest["layers"])],
    }


def _mean(values: Any) -> int | float | None:
    found = list(values)
    if not found:
        return None
    mean = sum(found) / len(found)
    return int(mean) if mean == int(mean) else mean


def _beats(run: Mapping[str, int], kind: str) -> int:
    return sum(value for name, value in run.items() if name.startswith(f"{kind}_beats"))


def _unit_clocks(timeline: Sequence[tuple[int, str, int]]) -> dict[str, list[int]]:
    """By engine: the clocks, from start, at which its first, second, ... unit was finished.

    Counts begin with those of the run before, until the start has cleared them.
    """
    clocks: dict[str, list[int]] = {engine: [] for engine in COUNTED}
    for clock, engine, units in timeline:
        del clocks[engine][units:]
        clocks[engine] += [clock] * (units - len(clocks[engine]))
    return clocks


def _layer(entry: LayerEntry, measured: Mapping[str, Any] | None, batch: int, peak: int) -> Figures:
    """One layer: what the compiler knows (of a batch), and what was measured where it was; MACs of one image."""
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
