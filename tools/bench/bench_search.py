"""How many points of a front `cnna explore --search` finds after how many compiles, by sampler: the table of docs/explore.md.

    .venv/bin/python tools/bench/bench_search.py digits.onnx --board ultra96 --sweep banks,ring,ports

The whole space is compiled once, without a bound, and kept in a folder of its own. The searches take their predictions from there.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

from cnna.compiler.explore.aim import Aim, Least
from cnna.compiler.explore.explore import Sweep
from cnna.compiler.explore.kept import Kept
from cnna.compiler.explore.point import Point
from cnna.compiler.explore.search import Search, search
from cnna.compiler.explore.tasks import Conditions, Wanted
from cnna.compiler.explore.workers import Workers
from cnna.compiler.placements import Placements
from cnna.jobs.explore.sweep import conditions, placements, space
from cnna.jobs.options.ddr import Ddr
from cnna.spec.boards import BOARDS
from cnna.spec.config import Config
from cnna.spec.exploring import SAMPLERS

SHARES = (0.1, 0.2, 0.4)  # of the space, that are compiled


class Unbound(Aim):
    """The same answer, for which every point is compiled."""

    def needless(self, config: Config, least: Least, points: Sequence[Point]) -> bool:
        """No point is."""
        return False


def found_by(network: Placements, configs: Sequence[Config], aim: Aim, how: Search, given: Conditions) -> Sweep:
    """A sweep after a search."""
    with Workers.local(1) as workers:
        sweep = Sweep([network], given, [Kept(how.folder, network.digest)], workers, aim)
        search(sweep, configs, 1, how)
        return sweep


def swept(network: Placements, configs: Sequence[Config], aim: Aim, folder: Path, given: Conditions) -> list[Point]:
    """All points."""
    with Workers.local(1) as workers:
        sweep = Sweep([network], given, [Kept(folder, network.digest)], workers, Unbound(aim.objective, aim.axes))
        sweep.run([Wanted(config, 1) for config in configs])
        return sweep.points


def main() -> None:
    """Prints a row for each sampler and number of compiles."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--board", default="ultra96", choices=BOARDS)
    parser.add_argument("--sweep", default="banks,ring,ports")
    parser.add_argument("--objective", default="alone")
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    board, configs, _ = space(args.board, {}, 1, Ddr(), args.sweep.split(","))
    aim, network = Aim(args.objective), placements(args.model, None, print)
    given = conditions(Ddr(), board, [1.0])
    with TemporaryDirectory() as folder:
        points = swept(network, configs, aim, Path(folder), given)
        front = aim.best(points)
        print(f"{len(points)} points of {len(configs)} configurations, {len(front)} of them in the front", flush=True)
        for sampler in SAMPLERS:
            for share in SHARES:
                runs = []
                for seed in range(args.seeds):
                    how = Search(round(share * len(points)), sampler, seed, Path(folder))
                    own = found_by(network, configs, aim, how, given)
                    runs.append((len(own.points), len({*map(repr, own.points)} & {*map(repr, front)}), within(own, front, aim)))
                made, same, near = zip(*runs, strict=True)
                print(
                    f"{sampler:7} {mean(made):6.0f} compiled, {mean(same):5.1f} of the front, {mean(near):5.1f} within 1 %",
                    flush=True,
                )


def within(sweep: Sweep, front: Sequence[Point], aim: Aim) -> int:
    """Points of the front for which one was found that costs no more in any axis and is at most 1 % slower."""

    def stands(own: Point, for_: Point) -> bool:
        return aim.speed(own) >= 0.99 * aim.speed(for_) and all(aim.cost(own, axis) <= aim.cost(for_, axis) for axis in aim.axes)

    return sum(any(stands(own, point) for own in sweep.points) for point in front)


if __name__ == "__main__":
    main()
