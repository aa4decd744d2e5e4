"""Points of an exploration that were not compiled, for tables, plots and fronts."""

from collections.abc import Sequence

from cnna.compiler.explore.aim import Aim, Least
from cnna.compiler.explore.explore import Sweep, evaluate, explore
from cnna.compiler.explore.kept import Kept
from cnna.compiler.explore.point import Part, Point
from cnna.compiler.explore.tasks import Conditions
from cnna.compiler.explore.workers import Workers
from cnna.compiler.graph.ir import Graph
from cnna.compiler.placements import Pieces
from cnna.spec.config import Config
from cnna.spec.errors import ModelError
from cnna.spec.host_time.end_to_end import EndToEnd
from cnna.spec.host_time.host_work import HostWork


def point(
    config: Config, batch: int, taken: tuple[int, float, int, int], cycles: int, macs: int, host_seconds: float = 0.0
) -> Point:
    """A point. taken: DSP48E2, BRAM36, URAM288 and LUTs. host_seconds: of a batch, on the CPU."""
    accelerator_seconds = cycles / (config.clock_mhz * 1e6)
    whole = EndToEnd(batch, accelerator_seconds, host_seconds, 2, 0, 1, HostWork(native=1), HostWork(native=1))
    return Point(config, batch, *taken, (Part(cycles, 5_000_000, macs, whole),))


class Unbound(Aim):
    """The same answer, for which every point is compiled."""

    def needless(self, config: Config, least: Least, points: Sequence[Point]) -> bool:
        """No point is."""
        return False


class Fixed:
    """A network whose pieces are the same for every configuration."""

    def __init__(self, *pieces: Graph) -> None:
        self._pieces = pieces

    def pieces(self, config: Config) -> Pieces:
        """As of `Placements`."""
        return self._pieces


def explored(
    graphs: Sequence[Graph], configs: Sequence[Config], batch: int | None = None, aim: Aim | None = None
) -> tuple[list[Point], int]:
    """What `explore` finds for networks of one graph each, with equal shares, of which nothing is kept."""
    networks, shares = [Fixed(graph) for graph in graphs], (1 / len(graphs),) * len(graphs)
    with Workers.local(1) as opened:
        kept = [Kept(None, "") for _ in networks]
        return explore(Sweep(networks, Conditions(shares=shares), kept, opened, aim or Aim()), configs, batch)


def evaluated(graph: Graph, config: Config, batch: int) -> Point | None:
    """The point of a graph; None: it does not fit."""
    try:
        return evaluate([graph], config, batch)
    except ModelError:
        return None
