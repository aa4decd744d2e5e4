"""How many times as quick `cnna explore` is with several workers: seconds, shares that workers are busy, and both ratios.

    .venv/bin/python tools/bench/bench_explore.py q.onnx --board ultra96 --batch 1 --jobs 1,2

Every number of workers compiles the same points anew, in this order, with a cache of its own and without a bound. Measure on a
machine that does nothing else, over a minute or more. Busy is processor time of the workers: what a worker waits for another
process of the machine counts as idle, so the share of cores that the sweep had stands beside.
"""

import argparse
import os
import pickle
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from cnna.compiler.explore.aim import Aim, Least
from cnna.compiler.explore.explore import Sweep
from cnna.compiler.explore.kept import Kept
from cnna.compiler.explore.point import Point
from cnna.compiler.explore.tasks import Conditions, Wanted
from cnna.compiler.explore.workers import Workers
from cnna.compiler.placements import Placements
from cnna.jobs.explore.sweep import conditions, placements, space
from cnna.jobs.options.ddr import Ddr
from cnna.spec.boards import BOARDS
from cnna.spec.config import Config

HEADS = ("workers", "points", "seconds", "busy seconds", "busy share", "idle share", "times as quick", "busy / seconds")


class Unbound(Aim):
    """The same answer, for which every point is compiled."""

    def needless(self, config: Config, least: Least, points: Sequence[Point]) -> bool:
        """No point is."""
        return False


class Run(NamedTuple):
    """Of a sweep. busy: processor seconds of its workers, and of the process that hands work to them."""

    jobs: int
    points: int
    seconds: float
    busy: float

    def cells(self, first: "Run") -> tuple[str, ...]:
        """Of a table. first: what it is compared with."""
        share = self.busy / self.seconds / self.jobs
        times = first.seconds / self.seconds
        figures = f"{self.seconds:.1f}", f"{self.busy:.1f}", f"{share:.0%}", f"{max(0.0, 1 - share):.0%}"
        return (f"{self.jobs}", f"{self.points}", *figures, f"{times:.2f}", f"{self.busy / self.seconds:.2f}")


def swept(network: Placements, wanted: Sequence[Wanted], jobs: int, given: Conditions, folder: Path) -> Run:
    """A sweep by so many workers. They end with it, so that their processor time is known."""
    file = folder / "networks.pickle"
    file.write_bytes(pickle.dumps([network], pickle.HIGHEST_PROTOCOL))
    before, begun = os.times(), time.monotonic()
    with Workers.local(jobs) as workers:
        sweep = Sweep(file, given, [Kept(folder / str(jobs), network.digest)], workers, Unbound())
        sweep.run(wanted)
    seconds, after = time.monotonic() - begun, os.times()
    return Run(jobs, len(sweep.points) + len(sweep.refused), seconds, sum(after[:4]) - sum(before[:4]))


def main() -> None:
    """Prints a row for each number of workers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--board", default="ultra96", choices=BOARDS)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--points", type=int, help="so many configurations alone, spread over all sizes (default: all)")
    parser.add_argument("--jobs", default="1,2")
    args = parser.parse_args()
    board, configs, _ = space(args.board, {}, args.batch, Ddr(), ())
    wanted = [Wanted(config, args.batch) for config in configs[:: max(1, len(configs) // (args.points or len(configs)))]]
    network, given = placements(args.model, None, print), conditions(Ddr(), board, [1.0])
    print(f"load before: {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores\n{'  '.join(HEADS)}", flush=True)
    runs: list[Run] = []
    for jobs in map(int, args.jobs.split(",")):
        with TemporaryDirectory() as folder:
            runs.append(swept(network, wanted, jobs, given, Path(folder)))
        cells = zip(HEADS, runs[-1].cells(runs[0]), strict=True)
        print("  ".join(cell.rjust(len(head)) for head, cell in cells), flush=True)


if __name__ == "__main__":
    main()
