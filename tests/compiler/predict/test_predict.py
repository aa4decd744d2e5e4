"""The predicted spans are a possible run of the accelerator: in order, after what they wait for, weights before their use."""

import gc
from itertools import pairwise

import numpy as np
import pytest

from cnna.compiler.compile import compile_graph
from cnna.compiler.cost.cost import ddr_bytes
from cnna.compiler.cost.engine_steps import command_steps
from cnna.compiler.graph import ir
from cnna.compiler.predict.predict import QUEUED, predicted_spans
from cnna.spec.config import preset
from cnna.spec.ddr import PLANNED, DdrSpeed
from cnna.spec.program.commands import commands
from cnna.spec.regmap import COUNTED

from ... import networks
from ...graph_builder import Builder


@pytest.fixture(scope="module", params=[(3, "tiny", 2), (5, "zcu102", 1)], ids=str)
def played(request):
    """A random network's commands with their spans, on one or four ports."""
    seed, config, batch = request.param
    program = compile_graph(networks.network(seed), preset(config), batch)
    return program, list(zip(commands(program.program), predicted_spans(program.program, program.config), strict=True))


def test_engines_take_their_commands_in_order(played):
    """Commands would overlap at an engine's head, or begin before the program can have written them."""
    _, run = played
    for engine in QUEUED:
        own = [(command, span) for command, span in run if command.engine == engine]
        assert all(first.held[1] <= then.held[1] and first.end <= then.end for (_, first), (_, then) in pairwise(own))
        assert all(command.pc < span.begin <= span.end for command, span in own)


def test_a_command_ends_after_all_that_its_units_wait_for(played):
    """If a wait were ignored, a layer would read what is not there yet."""
    program, run = played
    finished = {engine: [] for engine in COUNTED}  # units after each command, and its end
    for command, span in run:
        if command.engine in finished:
            before = finished[command.engine][-1][0] if finished[command.engine] else 0
            finished[command.engine].append((before + command.units(program.config.chunk_blocks), span.end))
    for command, span in run:
        fields, last = vars(command.f), command.units(program.config.chunk_blocks) - 1
        for engine in COUNTED if command.engine in COUNTED else ():
            if fields[f"wait_{engine}_enable"]:
                number = fields[f"wait_{engine}_count"] + last * fields[f"wait_{engine}_step"]
                assert all(span.end > end for units, end in finished[engine] if units <= number)


def test_no_engine_is_quicker_than_its_work(played):
    """The array would do more than a step a clock, or DDR move more bytes than it can."""
    program, run = played
    for command, span in run:
        if command.engine == "conv":
            assert span.held[1] - span.begin >= command_steps("conv", vars(command.f), program.config).steps - 1
    moved = sum(ddr_bytes(command.engine, vars(command.f), program.config) for command, _ in run)
    assert max(span.end for _, span in run) >= moved / PLANNED.bytes_per_cycle


def test_slower_memory_takes_longer():
    """A fully connected layer is bound by its weights: a fourth of the bandwidth must take four times as long."""
    b = Builder(np.random.default_rng(1), "fc")
    program = compile_graph(b.graph(b.conv(b.input(1024, 1, 1), 1024, ir.Window())), preset("zcu102"))
    ends = [predicted_spans(program.program, program.config, DdrSpeed(rate))[-1].end for rate in (48, 12)]
    weights = sum(ddr_bytes(c.engine, vars(c.f), program.config) for c in commands(program.program) if c.engine == "weight")
    assert ends[1] - ends[0] == pytest.approx(weights / 12 - weights / 48, rel=0.02)


def test_no_garbage_is_searched_for_meanwhile():
    """A search walks through all that the caller has, and finds nothing: a seventh of the time beside a large network."""
    program, phases = compile_graph(networks.network(3), preset("tiny"), 2), []
    told = list[int]()
    before = gc.get_threshold()
    gc.callbacks.append(note := lambda phase, info: phases.append(phase))
    try:
        gc.set_threshold(1)
        phases.clear()
        predicted_spans(program.program, program.config, count=lambda *_: told.append(len(phases)))
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(note)
    assert len(told) > 10
    assert told[0] == told[-1]
