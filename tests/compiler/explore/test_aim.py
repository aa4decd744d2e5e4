"""Aims: the smallest that is quick enough, the quickest within a chip, and which points need not be compiled for either."""

from dataclasses import replace
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from cnna.compiler.accesses import accesses
from cnna.compiler.compile import compile_graph
from cnna.compiler.explore.aim import Aim, Least
from cnna.compiler.explore.energy import Energy, energy_of
from cnna.compiler.explore.grid import configurations
from cnna.compiler.explore.sizes import Budget, dsp48e2
from cnna.compiler.graph import ir
from cnna.spec.config import preset
from cnna.spec.errors import UserError

from ...graph_builder import Builder
from .points import Unbound, explored, point

SMALL = Budget(250, 100)
LARGE, MIDDLE, LEAST = (preset(name) for name in ("zcu102", "zcu104", "tiny"))
POINTS = [  # the same network: 100, 50 and 5 images a second
    point(LARGE, 1, (2432, 648.0, 0, 160_000), 3_000_000, 4_000_000),
    point(MIDDLE, 1, (1408, 64.0, 0, 150_000), 6_000_000, 4_000_000),
    point(LEAST, 1, (80, 32.0, 0, 39_000), 60_000_000, 4_000_000),
]


def test_the_smallest_that_is_quick_enough_comes_first() -> None:
    """A user would pay for an array that is larger than the task, or get one that is too slow."""
    assert Aim("dsp", target_fps=30).best(POINTS)[0].config == MIDDLE
    assert Aim("dsp", target_fps=30).best(POINTS)[1:] == []  # larger ones need not be compiled, so none is shown
    assert Aim("ddr", target_fps=2).best(POINTS)[0].config == LARGE
    assert Aim("dsp", target_fps=2).best(POINTS)[0].config == LEAST
    assert Aim("dsp", target_ms=14).best(POINTS)[0].config == LARGE
    assert Aim("dsp", target_fps=1000).best(POINTS) == []
    assert Aim("lut", target_fps=2).best(POINTS)[0].config == min((LARGE, MIDDLE, LEAST), key=lambda config: config.macs)
    assert Aim("latency").best(POINTS)[0].config == LARGE
    assert [one.config for one in Aim(axes=("dsp",), target_fps=30).best(POINTS)] == [LARGE, MIDDLE]


def test_what_cannot_be_in_the_answer_is_ruled_out_and_nothing_else() -> None:
    """A point of the answer would never be compiled, or minutes pass with points that are in no answer."""
    aim = Aim("dsp", target_fps=30)
    assert aim.needless(MIDDLE, least(29), [])
    assert not aim.needless(MIDDLE, least(31), [])
    assert aim.needless(LARGE, least(100), POINTS[1:])
    assert not aim.needless(LARGE, least(100), POINTS[2:])
    assert aim.needless(MIDDLE, least(40), POINTS[1:2]), "as small, and slower"
    assert not aim.needless(MIDDLE, least(60), POINTS[1:2])
    assert Aim("dsp", target_ms=5).needless(LARGE, least(1000)._replace(seconds=0.006), [])
    front = Aim()
    assert front.needless(LARGE, least(40), POINTS[1:2])
    assert not front.needless(LARGE, least(60), POINTS[1:2])
    assert not front.needless(LEAST, least(1), POINTS[:2])


def test_an_axis_that_is_named_twice_counts_once() -> None:
    """The line under the table would name it twice."""
    assert str(Aim(axes=("dsp", "dsp"))) == str(Aim(axes=("dsp",)))


def test_ddr_is_a_budget_an_axis_and_an_objective() -> None:
    """A point of the answer would never be compiled, or a design be offered that leaves the DDR to nobody else."""
    traffic = Aim(ddr_traffic=5)
    assert traffic.needless(MIDDLE, least(40, 5_000_001), [])
    assert not traffic.needless(MIDDLE, least(40, 4_999_999), [])
    assert traffic.best(POINTS)[0].config == LARGE
    assert Aim(ddr_traffic=4.9).best(POINTS) == []
    half = [replace(one, batch=2) for one in POINTS]
    assert Aim(ddr_traffic=2.5).best(half) != [], "it is of an image, and not of a batch"
    axes = Aim(axes=("dsp", "ddr"))
    assert axes.needless(LARGE, least(40, 5_000_000), POINTS[1:2])
    assert not axes.needless(LARGE, least(40, 4_999_999), POINTS[1:2]), "it may need less DDR"
    assert not Aim("ddr").needless(LARGE, least(40, 5_000_000), POINTS[1:2]), "batches are chosen by other figures"
    slow = [replace(one, asked=3_600) for one in POINTS]
    aim = Aim("bandwidth", target_fps=30)
    assert aim.best([*POINTS, *slow[1:]]) == slow[1:2]
    assert aim.needless(LARGE, least(100), slow)
    assert not aim.needless(LARGE, least(101)._replace(bandwidth=3_600), slow)
    assert "at most 2.5 MB through DDR an image" in str(Aim(ddr_traffic=2.5))
    assert Aim(target_fps=1, ddr_traffic=1e-5).targets.startswith("1 image a second from picture to answer and at most 0.00001 MB")


def least(fps: float, moved: int = 0) -> Least:
    """What a point with the DDR of a ZCU102 takes at least."""
    return Least(1 / fps, 1, moved, 14_400)


@pytest.mark.parametrize(
    "options",
    [
        {"objective": "beauty"},
        {"axes": ("dsp", "price")},
        {"target_fps": 0},
        {"target_ms": -1.0},
        {"axes": ()},
        {"target_fps": inf},
        {"target_ms": nan},
        {"ddr_traffic": 0.0},
    ],
)
def test_what_cannot_be_wanted_is_refused(options: dict[str, Any]) -> None:
    """A slip would explore for minutes and answer another question."""
    with pytest.raises(UserError, match=r"there is no such|none is named|must be more than 0"):
        Aim(**options)


def test_ruling_out_changes_no_answer() -> None:
    """The bound would save time at the price of the best point."""
    b, window = Builder(np.random.default_rng(1), "wide"), ir.Window((3, 3), (1, 1), (1, 1), (1, 1, 1, 1))
    graph = b.graph(b.conv(b.conv(b.input(16, 10, 10), 32, window), 32, window))
    configs = configurations(Budget(400, 200))[::11]
    all_points, _ = explored([graph], configs, 1, aim=Unbound())
    assert len(all_points) == len(configs)
    speeds = sorted({one.fps for one in all_points})
    assert len(speeds) > 2, "all arrays are alike for this network, so nothing is ruled out"
    compiled = []
    for target in (speeds[0], speeds[1], 2 * speeds[-1]):
        for objective in ("dsp", "lut", "fps"):
            aim = Aim(objective, target_fps=target)
            points, _ = explored([graph], configs, 1, aim=aim)
            assert aim.best(points) == aim.best(all_points)
            compiled.append(len(points))
    assert min(compiled) < len(configs), "nothing is ruled out"


def test_arrays_of_every_size_are_offered() -> None:
    """The smallest design for a small network would be missing on a large chip."""
    offered = [dsp48e2(config) for config in configurations(Budget(2520, 912))]
    assert min(offered) < 100
    assert max(offered) > 2000


def test_energy_is_counts_times_constants() -> None:
    """Two designs would be compared by other constants than those that were given."""
    one = replace(POINTS[1], batch=2, parts=(replace(POINTS[1].parts[0], accesses=7_000_000),))
    own = Energy(mac=2.0, bram=3.0, ddr=5.0, static=1.5)
    counted = 2 * one.macs + (3 * 7_000_000 + 5 * one.bytes) / 2
    assert own.joules(one) == pytest.approx(counted * 1e-12 + 1.5 / one.alone)
    assert Aim("energy", energy=Energy(static=100)).best(POINTS)[0].config == LARGE
    assert energy_of({"mac": 2.0}) == Energy(mac=2.0)
    for given in ({"mac": -1.0}, {"watts": 1.0}):
        with pytest.raises(UserError, match=r"--energy mac=-1: must be|--energy watts: there is no such"):
            energy_of(given)


def test_accesses_are_those_of_the_steps() -> None:
    """Energy would miss what the engines read, which is most of it. One layer: nine taps, two steps a group of pixels and chunk."""
    b = Builder(np.random.default_rng(1), "one")
    graph = b.graph(b.conv(b.input(8, 6, 6), 16, ir.Window((3, 3), (1, 1), (1, 1), (1, 1, 1, 1))))
    program = compile_graph(graph, LEAST).program
    groups, chunks, sets = 36 // LEAST.pix, 16 // LEAST.co, 8 // LEAST.ci
    read = groups * chunks * sets * 9 * (LEAST.pix * LEAST.ci + LEAST.ring_word_bytes)
    written = 36 * 16
    assert accesses(program, LEAST, 800) == (read + written + 800) // 8
