"""Waits order all accesses to the same words: programs give the right answer in any order that their waits allow."""

import numpy as np
import pytest

from cnna.compiler.compile import compile_graph
from cnna.compiler.graph import ir
from cnna.compiler.lower.layout import Box, FeaturePlace
from cnna.compiler.plan.command import Access, PlannedCommand
from cnna.compiler.plan.hazards import add_waits
from cnna.host.device.accelerator import Accelerator
from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.sim.reference import reference
from cnna.spec.config import Config, preset
from cnna.spec.program.commands import commands
from cnna.spec.regmap import COUNTED, REGISTERS, SEGMENTS

from ... import networks
from ...graph_builder import Builder
from ..out_of_order import OutOfOrder

SMALL = Config("small", pix=2, ci=4, co=8, ports=1, regions=1, bank_words=256, ring_words=64, vector_ring_words=256)
WIDE = Config("wide", pix=4, ci=8, co=24, ports=3, regions=1, bank_words=128, ring_words=72, vector_ring_words=256)


def run_out_of_order(program, graph, seed, batch=1, writes=None):
    """The outputs of a program (or of other writes in its place) run in a random order, and the reference's, by name."""
    device = EmulatorDevice(program.config, 1 << 24)
    accelerator = Accelerator(device, program.piece())
    x = networks.inputs(graph, batch, seed)
    accelerator.store_inputs(x)
    device.state.segments = [accelerator.address(name) for name in SEGMENTS]
    OutOfOrder(device.state, writes or program.program, np.random.default_rng(seed)).run()
    return accelerator.load_outputs(), reference.run(graph, x)


@pytest.mark.parametrize("config", [SMALL, WIDE, preset("tiny")], ids=lambda config: config.name)
@pytest.mark.parametrize("number", range(12))
def test_networks_are_right_in_any_order(config, number, seed):
    """A missing wait would give a wrong word, above all in the networks that spill from small memories."""
    case = seed * 1000 + number
    graph, batch = networks.network(case), 1 + number % 2
    got, wanted = run_out_of_order(compile_graph(graph, config, batch), graph, case, batch)
    for name in graph.outputs:
        np.testing.assert_array_equal(got[name], wanted[name], err_msg=f"networks.network({case}), {config.name}, {name}")


@pytest.mark.parametrize("number", range(26))
def test_layers_are_right_in_any_order(number, seed):
    """Row bands of one layer through two staging copies, or weights that exceed the ring, could block the program."""
    case = seed * 1000 + number
    kinds = [kind for kind in networks.LAYERS if kind != "large_pool"]  # whose windows need more rows than WIDE holds
    kind = kinds[number % len(kinds)]
    graph = networks.layer(case, kind)
    got, wanted = run_out_of_order(compile_graph(graph, WIDE), graph, case)
    for name in graph.outputs:
        np.testing.assert_array_equal(got[name], wanted[name], err_msg=f"networks.layer({case}, {kind!r}), {name}")


def without_waits(program, engine):
    """The program with all waits for `engine` removed."""
    writes = np.frombuffer(program, "<u4").reshape(-1, 2).copy()
    for register in REGISTERS.values():
        if register.name.endswith(f"_WAIT_{engine.upper()}"):
            writes[writes[:, 0] == register.offset, 1] = 0
    return writes.tobytes()


@pytest.mark.parametrize("engine", COUNTED)
def test_missing_waits_are_seen(engine):
    """The random order must be adverse enough: without the waits for any one engine, some network must come out wrong."""
    for case in range(40):
        graph = networks.network(case)
        program = compile_graph(graph, SMALL)
        got, wanted = run_out_of_order(program, graph, case, writes=without_waits(program.program, engine))
        if any((got[name] != wanted[name]).any() for name in graph.outputs):
            return
    pytest.fail(f"nothing goes wrong without waits for {engine}")


def test_what_is_source_and_residual_is_read_until_the_last_unit():
    """y = conv(x) + x reads a block of x as residual in one unit, but as source in all. Overwritten after the one, it is lost."""
    place = FeaturePlace(0, 4, 16, 64)
    box, other = Box((0, 1), (0, 4), (0, 4), (0, 4)), FeaturePlace(128, 4, 16, 64)
    reads = (Access(place, box), Access(place, box, 2))
    conv = PlannedCommand("conv", {}, 0, "y", (0, 0, 0, 0), 2, reads, (Access(other, box, 2),))
    load = PlannedCommand("load", {}, 1, "z", (0, 0, 0, 0), 1, (), (Access(place, box),))
    first = PlannedCommand("load", {}, 1, "z", (0, 0, 0, 0), 1, (), (Access(place, box._replace(blocks=(0, 2))),))
    for command in (load, first):
        fields = add_waits([conv, command], {}, SMALL)[1].fields
        assert (fields["wait_conv_enable"], fields["wait_conv_count"]) == (1, 2)


def test_units_of_a_chunk_are_waited_for_one_by_one():
    """A pool behind a convolution must begin with the first chunk; waiting for all chunks would cost the overlap."""
    b = Builder(np.random.default_rng(1), "overlap")
    y = b.max_pool(b.conv(b.input(8, 8, 8), 32, ir.Window((3, 3), pads=(1, 1, 1, 1))), ir.Window((2, 2), (2, 2)))
    program = compile_graph(b.graph(y), preset("tiny"))
    pool = next(command for command in commands(program.program) if command.engine == "vector")
    assert (pool.f.wait_conv_enable, pool.f.wait_conv_step, pool.f.wait_conv_count) == (1, 1, 1)
