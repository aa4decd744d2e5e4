"""The formula of the engines' steps equals what the engines do, loop by loop, for kernels and for their commands."""

from itertools import product

import numpy as np
import pytest

from cnna.compiler.compile import compile_graph
from cnna.compiler.cost.engine_steps import command_groups, command_steps, kernel_steps
from cnna.compiler.graph import ir
from cnna.compiler.lower.lower import lower
from cnna.compiler.plan.fold import fold_inputs
from cnna.spec.config import preset
from cnna.spec.program.commands import commands
from cnna.spec.program.window import row_steps

from ...graph_builder import Builder

CONFIG = preset("tiny")


def _network(grow):
    builder = Builder(np.random.default_rng(1), "steps")
    return builder.graph(grow(builder, builder.input(13, 5, 7)))


CASES = {
    "conv": lambda b, x: b.conv(x, 21, ir.Window((3, 2))),
    "fully connected": lambda b, x: b.fully_connected(x, 9),
    "depthwise": lambda b, x: b.depthwise(x, ir.Window((3, 3))),
    "pool": lambda b, x: b.max_pool(x, ir.Window((2, 2), stride=(2, 2))),
}


@pytest.mark.parametrize("name", CASES)
def test_steps_are_those_of_the_loops(name):
    """All that estimate by the formula would be off by the same factor, so nothing would look wrong."""
    program = compile_graph(_network(CASES[name]), CONFIG, 3)
    working = [c for c in commands(program.program) if c.engine in ("conv", "vector") and vars(c.f)["kernel_height"] > 0]
    assert working
    for command in working:
        fields, work = vars(command.f), command_steps(command.engine, vars(command.f), CONFIG)
        pixels = [*product(range(fields["images"]), range(fields["out_height"]), range(fields["out_width"]))]
        groups = [pixels[low : low + CONFIG.pix] for low in range(0, len(pixels), CONFIG.pix)]
        assert len(groups) == work.groups == command_groups(fields, CONFIG)
        times, blocks = (fields["chunks"], fields["blocks"]) if command.engine == "conv" else (fields["blocks"], 1)
        made = CONFIG.chunk_blocks if command.engine == "conv" else 1
        row = row_steps(fields["kernel_width"], fields.get("window_apart", 0))
        steps = clocks = 0
        for _ in range(times * len(groups)):
            taken = sum(1 for _ in range(blocks) for _ in range(fields["kernel_height"]) for _ in row)
            halves = sum(1 for _ in range(made) for _ in range(2))
            steps, clocks = steps + taken, clocks + max(taken, halves)
        assert (work.steps, work.clocks) == (steps, clocks)


@pytest.mark.parametrize("name", CASES)
def test_kernels_and_their_commands_agree(name):
    """Kernels decide cuts and tiles, commands decide plans: two formulas would have two different optima."""
    graph = _network(CASES[name])
    lowered = lower(fold_inputs(graph, CONFIG)[0], CONFIG, 1)
    wanted = 0
    for kernel in lowered.kernels:
        dest = lowered.maps[kernel.dest.map]
        wanted += sum(work.steps for work in kernel_steps(kernel, dest.height * dest.width, lowered.maps, CONFIG))
    played = [c for c in commands(compile_graph(graph, CONFIG).program) if c.engine in ("conv", "vector")]
    assert sum(command_steps(c.engine, vars(c.f), CONFIG).steps for c in played) == wanted
