"""Simulates a thousand boards and a million requests a second, and writes tables and picture of docs/thousand-boards.md.

.venv/bin/python tools/simulation/thousand_boards.py [--requests 1000000] [--jobs 2]

Service times are those of docs/performance.md, modelled from pictures to answers, slow and quick end; what a request costs a front
was measured, in docs/serving/measurements.md.
"""

import argparse
import itertools
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from fleet import HANG, REFUSE, Failure, Fleet, Network, Seen, covers
from fleet_events import play

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "thousand-boards.md"
BOARDS, RATE, BATCH = 1000, 1e6, 4
MIX = {"mobilenet_v2": 0.47, "squeezenet": 0.25, "mobilenet_v3_large": 0.17, "resnet50": 0.11}
PICTURE_BITS = 224 * 224 * 3 * 8  # uint8
LINK = 10e9  # bits a second of a board
FRONT_MS = {"http": 0.71, "grpc": 0.73}  # replaced by what the page of measurements says
ENDS = ("slow", "quick")
BEGIN, END = "<!-- {}: written by tools/simulation/thousand_boards.py -->", "<!-- end of {} -->"


@dataclass(frozen=True)
class Row:
    """A line of a table: the fleet at both ends of the service times, and what was seen."""

    table: str
    name: str
    fleet: Fleet
    end: str = "slow"


def end_to_end(network: str, batch: int, end: str) -> float:
    """Pictures a second of a row of docs/performance.md, from picture to answer."""
    text = (ROOT / "docs" / "performance.md").read_text()
    line = re.search(rf"^\| {network}/b{batch} \|.*$", text, re.MULTILINE)
    assert line is not None, f"docs/performance.md has no row {network}/b{batch}"
    low, _, high = line[0].split(" | ")[3].replace(",", "").partition(" to ")
    return float(low if end == "slow" else high)


def front_ms(protocol: str, kilobytes: int) -> float:
    """What a request costs the front's processor, as docs/serving/measurements.md has it."""
    text = (ROOT / "docs" / "serving" / "measurements.md").read_text()
    line = re.search(rf"^\| {protocol} \| {kilobytes} \|.*$", text, re.MULTILINE)
    assert line is not None, f"docs/serving/measurements.md has no row of {protocol} at {kilobytes} kB"
    return float(line[0].split(" | ")[4])


def mix(end: str) -> tuple[Network, ...]:
    """The models, each with artifacts for one picture and for four."""
    found = []
    for name, share in MIX.items():
        alone, full = (batch / end_to_end(name, batch, end) for batch in (1, BATCH))
        found.append(Network(name, share, covers(alone, full, BATCH)))
    return tuple(found)


def placed(networks: Sequence[Network], boards: int) -> tuple[tuple[int, ...], ...]:
    """Boards for each model alone, in proportion to the load that it brings."""
    loads = [one.share * one.seconds[-1] for one in networks]
    borders = [round(boards * sum(loads[:number]) / sum(loads)) for number in range(len(loads) + 1)]
    return tuple(tuple(range(first, last)) for first, last in itertools.pairwise(borders))


def rows(end: str) -> list[Row]:
    """All that is simulated, at one end of the service times."""
    networks = mix(end)
    base = Fleet(RATE, BOARDS, networks, fronts=1000, link_seconds=PICTURE_BITS / LINK, window=1e-3)
    own, cost = placed(networks, BOARDS), front_ms("grpc", 150) / 1e3
    failing = partial(Failure, at=0.15, detection=0.05)
    failures = {kind: tuple(failing(number * BOARDS // 10, kind=kind) for number in range(10)) for kind in (HANG, REFUSE)}
    found = [Row("policies", name, replace(base, policy=name)) for name in ("random", "round", "two", "central")]
    found += [
        Row("policies", "least, 1,000 fronts", replace(base, policy="least")),
        Row("policies", "least, 10 fronts", replace(base, policy="least", fronts=10)),
        Row("policies", "racks: 25 of 40 boards", replace(base, policy="racks", racks=25)),
    ]
    found += [Row("windows", f"all models, {ms:g} ms", replace(base, window=ms / 1e3)) for ms in (0, 0.5, 2, 5)]
    found += [Row("windows", f"one model, {ms:g} ms", replace(base, window=ms / 1e3, placed=own)) for ms in (0, 1, 5)]
    found += [Row("fronts", f"{fronts:,}", replace(base, fronts=fronts, front_seconds=cost)) for fronts in (800, 1000, 1500)]
    found += [
        Row("failures", f"{policy}, ten boards {kind}", replace(base, policy=policy, failures=failures[kind]))
        for policy in ("round", "two")
        for kind in failures
    ]
    return [replace(row, end=end) for row in found]


def simulated(row: Row, requests: int) -> Seen:
    """Plays a row."""
    return play(row.fleet, requests)


def line(table: str, name: str, fleet: Fleet, ends: Sequence[Seen]) -> str:
    """A line of a table: ranges from the quick to the slow end."""
    points = [seen.percentiles() for seen in ends]
    spread = [f"{min(both):.1f} to {max(both):.1f}" for both in zip(*points, strict=True)]
    more = {
        "fronts": [f"{fleet.front_load:.0%}", f"{ends[0].mean_ms('front'):.2f}"],
        "failures": [f"{ends[0].retries / len(fleet.failures or (0,)):.0f}"],
    }
    usual = [f"{ends[0].answered / ends[0].batches:.1f}", f"{100 * ends[0].busy / (fleet.boards * ends[0].arrivals[-1]):.0f} %"]
    return f"| {' | '.join([name, *spread, *more.get(table, usual)])} |"


HEADS = {
    "policies": "| policy | p50, ms | p99, ms | p99.9, ms | samples a batch | boards busy |",
    "windows": "| models on a board, window | p50, ms | p99, ms | p99.9, ms | samples a batch | boards busy |",
    "fronts": "| front processes | p50, ms | p99, ms | p99.9, ms | their load | mean ms in the front |",
    "failures": "| policy, failure | p50, ms | p99, ms | p99.9, ms | requests sent again, per board |",
}


def written(text: str, name: str, table: str) -> str:
    """The page with another table."""
    begin, end = BEGIN.format(name), END.format(name)
    head, _, rest = text.partition(begin)
    _, _, tail = rest.partition(end)
    return f"{head}{begin}\n{table}\n{end}{tail}"


def picture(path: Path, seen: dict[str, Seen]) -> None:
    """The share of requests that take longer, by policy."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    figure, axes = plt.subplots(figsize=(8, 4.2), dpi=100)
    for name, one in seen.items():
        times = np.sort(one.seconds[len(one.seconds) // 5 :]) * 1e3
        shares = 1 - np.arange(len(times)) / len(times)
        chosen = np.unique(np.geomspace(1, len(times), 400).astype(int))
        axes.plot(times[-chosen], shares[-chosen], label=name)
    axes.set_yscale("log")
    axes.set_xlabel("milliseconds from arrival to answer")
    axes.set_ylabel("share of requests that take longer")
    axes.set_title("A thousand boards, a million requests a second: modelled, slow end")
    axes.set_ylim(1e-4, 1)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path)


def main(words: Sequence[str] | None = None) -> int:
    """Writes the page's tables and its picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000, help="in each run")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args(words)
    both = {end: rows(end) for end in ENDS}
    todo = [row for end in ENDS for row in both[end]]
    with ProcessPoolExecutor(args.jobs) as pool:
        runs = pool.map(partial(simulated, requests=args.requests), todo)
        seen = {(row.end, row.table, row.name): run for row, run in zip(todo, runs, strict=True)}
    tables = {name: [head, "|---" * head.count(" | ") + "|---|"] for name, head in HEADS.items()}
    for row in both["slow"]:
        tables[row.table].append(line(row.table, row.name, row.fleet, [seen[end, row.table, row.name] for end in ENDS]))
    text = PAGE.read_text()
    for name, lines in tables.items():
        text = written(text, name, "\n".join(lines))
        print("\n".join([f"{name}:", *lines]))
    PAGE.write_text(text)
    picture(
        PAGE.with_suffix(".png"), {row.name: seen["slow", row.table, row.name] for row in both["slow"] if row.table == "policies"}
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
