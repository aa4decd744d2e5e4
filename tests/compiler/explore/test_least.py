"""The bound of a point is never below its speed from picture to answer, and where the host decides it is that speed."""

import numpy as np
import pytest

from cnna.compiler.explore.aim import Aim, Least
from cnna.compiler.explore.explore import evaluate, point_of
from cnna.compiler.explore.grid import configurations
from cnna.compiler.explore.least import bounded, least_of, shape_of
from cnna.compiler.explore.planned import part_of
from cnna.compiler.explore.point import Point
from cnna.compiler.explore.sizes import Budget
from cnna.compiler.explore.tasks import Conditions, Wanted
from cnna.compiler.graph.ir import Graph
from cnna.spec.boards import BOARDS
from cnna.spec.errors import ModelError

from ... import networks
from .points import Fixed, Unbound, explored

SMALL = Budget(250, 100)
OFFERED = [config for board in ("zcu102", "ultra96") for config in configurations(Budget(2520, 912), BOARDS[board], ("ports",))]


def least(graphs: list[Graph], one: Wanted, conditions: Conditions) -> Least:
    """What a point takes at least."""
    sources = [Fixed(graph) for graph in graphs]
    bounds = [bounded(sources, conditions, [shape_of(number, one)])[0] for number in range(len(sources))]
    found = least_of(one, bounds, conditions)
    assert found is not None
    return found


def within(bound: Least, point: Point) -> bool:
    """Whether a point takes no less than its bound, in any figure that is compared."""
    quick = point.fps <= bound.fps and point.alone <= bound.alone
    return quick and point.latency.slow >= bound.late and point.bytes / point.batch >= bound.bytes


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_no_point_is_quicker(seed: int, native: bool) -> None:
    """A point of the answer would never be compiled. Random networks on random configurations."""
    graph, random = networks.network(seed), np.random.default_rng(seed)
    compared = 0
    while compared < 2:
        one = Wanted(OFFERED[random.integers(len(OFFERED))], int(random.integers(1, 4)))
        try:
            point = evaluate([graph], one.config, one.batch, native=native)
        except ModelError:
            continue
        compared += 1
        assert within(least([graph], one, Conditions(native=native)), point)


def test_networks_that_share_an_accelerator_share_the_bound() -> None:
    """The bound of the quicker network would stand for both."""
    graphs, one = [networks.network(3), networks.network(4)], Wanted(configurations(SMALL)[-1], 1)
    conditions = Conditions(native=False, shares=(0.75, 0.25))
    point = point_of(one, [part_of([graph], one.config, 1, native=False) for graph in graphs], conditions)
    bound = least(graphs, one, conditions)
    assert within(bound, point)
    first, second = (least([graph], one, Conditions(native=False)).answered for graph in graphs)
    assert first != second
    assert bound.answered == pytest.approx(1 / (0.75 / first + 0.25 / second))


def test_arrays_behind_a_slow_host_are_ruled_out() -> None:
    """Each larger array would be compiled, minutes of work, to see that it waits for the same host."""
    graph, configs = networks.network(3), configurations(SMALL)[::4]
    all_points, _ = explored([graph], configs, 1, Unbound())
    waiting = [point for point in all_points if point.fps < 0.9 * point.alone]
    assert len(waiting) > 3, "the host decides nowhere"
    for point in waiting:
        bound = least([graph], Wanted(point.config, 1), Conditions())
        assert (bound.answered, bound.alone > bound.answered) == (point.fps, True)
    for aim in (Aim(), Aim(axes=("dsp",)), Aim("dsp", target_fps=min(point.fps for point in all_points)), Aim("latency")):
        found, _ = explored([graph], configs, 1, aim)
        assert aim.best(found) == aim.best(all_points)
        assert len(found) < len(all_points) / 2 or aim.objective == "latency"


def test_a_tie_is_ruled_out_only_by_a_smaller_one() -> None:
    """Of two points that are equal in all, each would rule out the other; or all of those that wait for a host be compiled."""
    (point, *_), _ = explored([networks.network(3)], configurations(SMALL)[:1], 1, Unbound())
    bound = Least(1 / point.fps, 1, 0, 14_400)
    larger = next(config for config in configurations(SMALL) if config.macs > point.config.macs)
    for aim in (Aim(), Aim("dsp", target_fps=1)):
        assert not aim.needless(point.config, bound._replace(answered=point.fps), [point])
        assert aim.needless(larger, bound._replace(answered=point.fps), [point])
    assert not Aim().needless(larger, bound._replace(seconds=0.99 / point.fps, answered=1.01 * point.fps), [point])
