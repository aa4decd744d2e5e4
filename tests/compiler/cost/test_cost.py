"""Estimated clocks follow the work, and the timeline obeys the program's waits."""

import numpy as np
import pytest

from cnna.compiler.compile import compile_graph
from cnna.compiler.cost import cost
from cnna.compiler.cost.engine_steps import command_groups, command_steps
from cnna.compiler.graph import ir
from cnna.spec.config import Config, preset
from cnna.spec.ddr import PLANNED, DdrSpeed
from cnna.spec.program.commands import commands
from cnna.spec.regmap import offset

from ... import networks
from ...graph_builder import Builder


def conv_program(channels, height, width, cout, window, config="tiny"):
    b = Builder(np.random.default_rng(1), "conv")
    return compile_graph(b.graph(b.conv(b.input(channels, height, width), cout, window)), preset(config))


def fields_of(program, engine):
    return [vars(command.f) for command in commands(program.program) if command.engine == engine]


def test_steps_are_macs_of_a_layer_that_fills_the_array():
    """Where channels and pixels divide evenly, every step is pix * ci * co multiply-accumulates."""
    program = conv_program(8, 8, 8, 16, ir.Window((3, 3), pads=(1, 1, 1, 1)))
    (fields,) = fields_of(program, "conv")
    assert command_steps("conv", fields, program.config).steps * program.config.macs == program.macs


def test_a_thin_convolution_is_bound_by_its_writer():
    """1 x 1 over one block takes as long as writing its chunks, two half groups for each block, and a clock to change them."""
    program = conv_program(4, 8, 8, 8, ir.Window())
    (fields,) = fields_of(program, "conv")
    groups = command_groups(fields, program.config)
    fill = cost.FILL_CLOCKS["conv"]
    assert (
        cost.estimated_cycles("conv", fields, program.config) - fill == groups * 2 * program.config.chunk_blocks + fields["chunks"]
    )


def test_ddr_bytes_are_all_that_crosses_the_ports():
    """A layer on chip reads its input once and its constants once, and writes its output once."""
    program = conv_program(8, 8, 8, 16, ir.Window((3, 3)))
    (layer,) = program.layers
    ports = sum(port["image_bytes"] for port in program.inputs)
    streams = sum(f["beats"] * 16 for f in fields_of(program, "weight"))
    assert layer["ddr_read_bytes"] == ports + streams
    assert layer["ddr_write_bytes"] == sum(port["image_bytes"] for port in program.outputs)


@pytest.mark.parametrize(
    ("run", "step", "clocks"), [(28, 4, 56), (28, 16, 56), (28, 57, 56), (1, 1, 2), (1, 8, 4), (1, 16, 8), (17, 16, 34), (4, 16, 8)]
)
def test_words_in_one_bank_go_one_by_one(run, step, clocks):
    """Eight runs at four ports. Ports that begin in one bank would wait for each other even where runs lead them apart."""
    fields = {"run": run, "runs": 8, "fm_run": step, "blocks": 1, "fm_block": 0}
    assert cost.moving_clocks(fields, preset("zcu102")) == clocks


@pytest.mark.parametrize(("run", "clocks"), [(2, 8), (4, 8), (8, 16), (9, 24)])
def test_beats_as_wide_as_all_banks_go_one_by_one(run, clocks):
    """A beat has a word for each of four banks, so four ports move one beat a clock, like a single port."""
    config = Config("wide", pix=2, ci=4, co=16, ports=4, regions=1, bank_words=128, ring_words=64, vector_ring_words=256)
    fields = {"run": run, "runs": 8, "fm_run": 4, "blocks": 1, "fm_block": 0}
    assert cost.moving_clocks(fields, config) == clocks


def test_a_depthwise_pass_beside_its_source_waits_for_its_writes():
    """In one region the vector engine's reads meet its writes. In two regions only its parameters come between blocks."""
    config = preset("zcu102")
    b = Builder(np.random.default_rng(1), "depthwise")
    graph = b.graph(b.depthwise(b.input(64, 14, 14), ir.Window((3, 3), pads=(1, 1, 1, 1))))
    (fields,) = fields_of(compile_graph(graph, config), "vector")
    groups, region = -(-14 * 14 // 8), config.banks * config.bank_words
    clocks = {}
    for name, dst in (("apart", fields["src"] + 2 * region), ("together", fields["src"] + 4000)):
        where = {"src": fields["src"], "dst": dst % config.feature_words}
        clocks[name] = cost.estimated_cycles("vector", {**fields, **where}, config) - cost.FILL_CLOCKS["vector"]
    assert clocks["apart"] == 4 * (groups * 3 + config.vector_param_words)
    assert clocks["together"] > clocks["apart"] + 4 * groups / 2


@pytest.mark.parametrize("case", range(10))
def test_timeline_obeys_waits_and_order(case):
    """A command would end before one that it waits for, or begin before the one before it on its engine has only to drain."""
    program = compile_graph(networks.network(case), preset("tiny"))
    spans, found = cost.timeline(program.program, program.config), list(commands(program.program))
    ends: dict[str, list[int]] = {}
    for span, command in zip(spans, found, strict=True):
        assert span.engine == command.engine
        assert span.begin <= span.end
        for engine in ("load", "store"):  # their units are whole commands
            if getattr(command.f, f"wait_{engine}_enable", 0):
                count = getattr(command.f, f"wait_{engine}_count")
                assert span.end >= ends[engine][count - 1]
        draining = cost.FILL_CLOCKS[span.engine] if span.engine in ("conv", "vector") else 0
        assert span.begin >= ends.get(span.engine, [0])[-1] - draining
        ends.setdefault(span.engine, []).append(span.end)
    assert cost.total_cycles(spans) == max(span.end for span in spans)


def test_a_wait_that_is_never_met_names_command_and_counts():
    """A wrong hazard ends here. Without the message it would be an index out of range, somewhere."""
    program = conv_program(8, 8, 8, 16, ir.Window((3, 3), pads=(1, 1, 1, 1)))
    writes = np.frombuffer(program.program, "<u4").reshape(-1, 2).copy()
    writes[writes[:, 0] == offset("STORE_WAIT_CONV"), 1] += 1  # the count is in the low bits
    with pytest.raises(AssertionError, match=r"the store command at write .* waits for 3 units of conv; earlier commands make 2"):
        cost.timeline(writes.tobytes(), program.config)


def test_weights_that_must_be_streamed_bound_a_layer():
    """A fully connected layer would take less time than its weights take to come."""
    b = Builder(np.random.default_rng(1), "fc")
    program = compile_graph(b.graph(b.fully_connected(b.input(400, 1, 1), 80)), preset("tiny"))
    spans = cost.timeline(program.program, program.config)
    assert cost.total_cycles(spans) >= sum(f["beats"] for f in fields_of(program, "weight"))


def test_a_slower_memory_takes_longer_and_only_where_it_is_waited_for():
    """Bytes a clock and latency must reach every engine that moves bytes, and leave conv commands' own clocks as they are."""
    b = Builder(np.random.default_rng(1), "fc")
    program = compile_graph(b.graph(b.fully_connected(b.input(400, 1, 1), 80)), preset("zcu102"))
    clocks = {
        memory: cost.total_cycles(cost.timeline(program.program, program.config, memory))
        for memory in (PLANNED, DdrSpeed(24), DdrSpeed(48, 480))
    }
    assert clocks[PLANNED] == cost.total_cycles(cost.timeline(program.program, program.config))
    streamed = sum(f["beats"] * 16 * program.config.ports for f in fields_of(program, "weight"))
    assert clocks[DdrSpeed(24)] - clocks[PLANNED] >= 0.8 * streamed * (1 / 24 - 1 / 48)
    assert clocks[DdrSpeed(48, 480)] - clocks[PLANNED] >= 360
    (fields,) = fields_of(program, "conv")
    own = {cost.estimated_cycles("conv", fields, program.config, memory) for memory in clocks}
    assert len(own) == 1
