"""The end-to-end columns of docs/performance.md: the host's work of a row, counted or estimated, and what the model makes of it.

`make host-cost` counts (docs/host_cost.json). A row that was not counted takes the counts of one picture at batch 1, and without
those its network's estimate, which `make bench` keeps.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bench_rows import HOST_PATHS, Row

from cnna.spec.artifact import Artifact
from cnna.spec.host_time.end_to_end import EndToEnd, end_to_end, rates
from cnna.spec.host_time.host_work import HostWork

Found = Mapping[str, Any]
SHARE, QUICK_FPS, QUICK_SHARE = 0.95, 2500, 0.8  # of the accelerator's frames, from a rate on, at the slow end on four cores
MORE_MS = 0.8  # of latency beyond the accelerator's clocks, at the slow end
HEADS = ("modelled end to end", "on 1 core", "modelled latency, ms")
ABOUT = """
*fps* is the accelerator's alone. In a stream its runs wait in [a queue](queue.md), so it waits for its host only where that is the
slower of the two, or a single picture is asked for. *Modelled* columns are for pictures from uint8 arrays to answers:
the slow and the quick end of a model of the board's four Cortex-A53 ([how](host-cost.md)). No board has confirmed them.
"End to end" are pictures a second of a long stream, with four cores and with one, and "latency" is that of one batch alone.
The host's work was counted: of {cached} rows with the native host library and memory that the processor caches, which
`cnna board selftest` must prove on the board first; of {native} with the library and memory that is not cached; of {python} in
Python alone. Of the other rows it is estimated, in Python alone. [host.md](host.md) compares the three. A batch is given the work
of its pictures one by one, which is more than it takes.

The DPU's figures are measured on a board, from picture to answer, so compare them with the modelled columns, not with *fps*.
{ahead}
"""


def estimated(artifact: Artifact) -> dict[str, Any]:
    """The host's work for a batch of an artifact, in Python alone, for performance.json."""
    manifest = artifact.manifest
    found = end_to_end(manifest["pieces"], 0, artifact.config.clock_mhz, manifest["batch"], native=False)
    return {"stream": found.stream.counts(), "single": found.single.counts(), "cpu_seconds": found.cpu_seconds}


def model(row: Row, found: Found, kept: Found) -> EndToEnd | None:
    """The model of a row at 300 MHz. kept: the counts of docs/host_cost.json. None: its host's work is unknown."""
    host, best = found.get("host"), found["measured"] or found["predicted"]
    counted = _counted(paths_of(row, kept))
    if counted is None and host is None:
        return None
    if counted is not None:
        works = [counted[mode].scaled(row.batch) for mode in ("stream", "single", "cpu")]
        stream, single, cpu, seconds = works[0], works[1], works[2], None
    else:
        assert host is not None
        stream, single, cpu, seconds = HostWork(**host["stream"]), HostWork(**host["single"]), None, host["cpu_seconds"]
    clocks, packing = row.batch / best["fps_at_300mhz"], counted["pack"].scaled(row.batch) if counted else HostWork()
    return EndToEnd(row.batch, clocks, seconds, 0, 0, found["pieces"][0], stream, single, cpu, packing)


def paths_of(row: Row, kept: Found) -> Found:
    """What was counted for a row; for a batch that was not, a picture at batch 1, whose Python serves it alone."""
    found: Found = kept.get(row.key, {}) or kept.get(replace(row, batch=1).key, {})
    return found


def _counted(paths: Found) -> dict[str, HostWork] | None:
    """The work of one picture: of a stream, alone, of the pieces on the CPU, and what threads share. The quickest way is taken."""
    path = next((paths[name] for name in reversed(HOST_PATHS) if name in paths), None)
    if path is None:
        return None
    packing = HostWork(**path["stream"].get("pack", {}))
    found = {"cpu": HostWork(**path["stream"].get("cpu", {})), "pack": packing if packing.native else HostWork()}
    for mode in ("stream", "single"):
        work = HostWork()
        for stage, counts in path[mode].items():
            work = work.plus(HostWork(**counts)) if stage != "cpu" else work
        found[mode] = work
    return found


def cells(row: Row, found: Found, kept: Found) -> tuple[str, ...]:
    """The cells under HEADS."""
    whole = model(row, found, kept)
    if whole is None:
        return ("-",) * len(HEADS)
    four, one, latency = whole.fps(4), whole.fps(1), whole.latency()
    assert four is not None
    assert one is not None
    assert latency is not None
    return rates(four), rates(one), rates(latency.scaled(1e3).turned())


def against_targets(row: Row, found: Found, kept: Found) -> str:
    """A line of the table in docs/host.md: modelled rates and latency, without and with cached memory, beside their targets."""
    paths, texts, met = kept[row.key], [], False
    for path in HOST_PATHS[1:]:
        whole = model(row, found, {row.key: {path: paths[path]}})
        fps, latency = (whole.fps(), whole.latency()) if whole else (None, None)
        assert whole is not None
        assert fps is not None
        assert latency is not None
        alone = row.batch / whole.accelerator_seconds
        met = fps.slow >= alone * (QUICK_SHARE if alone >= QUICK_FPS else SHARE)
        more = [1e3 * (seconds - whole.accelerator_seconds) for seconds in (latency.quick, latency.slow)]
        texts.append((f"{rates(fps)} | {fps.slow / alone:.0%}", f"{more[0]:.2f} to {more[1]:.2f}", more[1] <= MORE_MS))
    (uncached, alone_uncached, _), (cached, alone_cached, soon) = texts
    words = {True: "met", False: "missed"}
    cells = (row.key, f"{alone:,.0f}", uncached, cached, words[met], alone_uncached, alone_cached, words[soon])
    return f"| {' | '.join(cells)} |"


def ahead(rows: Mapping[Row, Found], kept: Found, peers: Mapping[str, float]) -> str:
    """A sentence on the rows whose slow end is quicker than the DPU."""
    known = {row: model(row, found, kept) for row, found in rows.items() if row.network in peers}
    fps = {row: whole.fps() for row, whole in known.items() if whole is not None}
    names = [row.key for row, found in fps.items() if found is not None and found.slow > peers[row.network]]
    if not names:
        return "No row's slow end is ahead of the DPU."
    return f"In these rows even the slow end of the model is ahead of what was measured of the DPU: {', '.join(names)}."
