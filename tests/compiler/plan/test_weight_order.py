"""Weight streams in another order: every word still comes, in order and before its reader, and no command waits for a later one."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.compiler.choose.mixed import clocks
from cnna.compiler.choose.search import in_waves
from cnna.compiler.graph import ir
from cnna.compiler.lower.lower import lower
from cnna.compiler.plan import weight_order
from cnna.compiler.plan.emit import emit
from cnna.compiler.plan.limits import PlanLimits
from cnna.compiler.plan.pitch import set_pitches
from cnna.compiler.plan.plan import Planner
from cnna.compiler.plan.tile import ddr_rate
from cnna.compiler.plan.weight_order import READERS, merged_weights
from cnna.compiler.predict.predict import predicted_spans
from cnna.spec.config import BEAT_BYTES, preset

from ... import networks
from ...configurations import LITTLE, ODD
from ...graph_builder import Builder

PRODUCT = preset("zcu102")


def deep():
    """Depthwise layers whose words fill the vector ring, and behind them a layer with many weights for few pixels."""
    b = Builder(np.random.default_rng(2), "deep")
    x = b.conv(b.input(112, 14, 14), 672, ir.Window((1, 1)))
    for down in (1, 1, 2):
        x = b.depthwise(x, ir.Window((5, 5), (down, down), pads=(2, 2, 2, 2)))
    return b.graph(b.conv(x, 1280, ir.Window((1, 1))))


def thin():
    """Layers whose weights all fit into the ring together."""
    b = Builder(np.random.default_rng(3), "thin")
    x = b.input(32, 14, 14)
    for _ in range(6):
        x = b.conv(x, 32, ir.Window((1, 1)))
    return b.graph(x)


def planned(graph, config, batch=1):
    whole = set_pitches(lower(graph, config, batch), config)
    return in_waves(Planner(whole, config, graph.name, PlanLimits(vector_share=0)), 0)[0]


def merged(made, config):
    return merged_weights(made.commands, predicted_spans(made.program, config), config)


def streamed(commands, ring, config):
    """Addresses of all words that come to a ring, in order."""
    bytes_ = config.vector_word_bytes if ring else config.stripe_bytes
    found = []
    for command in commands:
        if command.engine == "weight" and command.fields["ring"] == ring:
            fields = command.fields
            words = fields["beats"] * BEAT_BYTES // bytes_
            found += [fields["ddr"] + word * bytes_ for word in range(words)] * fields["repeat"]
    return found


def read(commands, config):
    """For each command that reads a ring, the words that have come to the ring before it."""
    come = {0: 0, 1: 0}
    found = []
    for command in commands:
        if command.engine == "weight":
            ring = command.fields["ring"]
            bytes_ = config.vector_word_bytes if ring else config.stripe_bytes
            come[ring] += command.fields["beats"] * BEAT_BYTES // bytes_ * command.fields["repeat"]
        elif command.engine in READERS:
            found.append((command, come[READERS[command.engine]]))
    return found


@pytest.mark.parametrize("config", [LITTLE, ODD], ids=lambda config: config.name)
def test_every_word_comes_in_order_and_before_its_reader(config, seed):
    """A word that is missing, or that comes twice, would shift all that follow."""
    changed = 0
    for case in range(seed * 10, seed * 10 + 10):
        made = planned(networks.network(case), config, 1 + case % 3)
        commands = merged(made, config)
        if commands is None:
            continue
        changed += commands != list(made.commands)
        for ring in (0, 1):
            assert streamed(commands, ring, config) == streamed(made.commands, ring, config)
        for (command, before), (same, needed) in zip(read(commands, config), read(made.commands, config), strict=True):
            assert command is same
            assert before >= needed
    assert changed


@pytest.mark.parametrize("config", [LITTLE, ODD, PRODUCT], ids=lambda config: config.name)
def test_no_piece_waits_for_room_that_only_a_later_command_frees(config, seed):
    """The program would stop: the weight engine holds the piece, and the later command is never handed to its engine."""
    graphs = [deep()] if config is PRODUCT else [networks.network(case) for case in range(seed * 10, seed * 10 + 10)]
    for graph in graphs:
        made = planned(graph, config)
        commands = merged(made, config) or list(made.commands)
        ends = {id(command): words for command, words in read(made.commands, config)}
        come, freed = {0: 0, 1: 0}, {0: 0, 1: 0}
        for number, command in enumerate(commands):
            if command.engine in READERS:
                freed[READERS[command.engine]] = ends[id(command)]
            if command.engine != "weight":
                continue
            ring = command.fields["ring"]
            bytes_, size = (
                (config.vector_word_bytes, config.vector_ring_words) if ring else (config.stripe_bytes, config.ring_words)
            )
            come[ring] += command.fields["beats"] * BEAT_BYTES // bytes_ * command.fields["repeat"]
            if come[ring] > freed[ring] + size:  # a long stream: nothing but its own parts may stand before its reader
                following = next(other for other in commands[number:] if other.engine != "weight")
                between = commands[number : commands.index(following)]
                assert READERS.get(following.engine) == ring
                assert all(part.fields["ring"] == ring for part in between)
                assert len(between) <= 2


def test_the_weights_of_small_maps_come_sooner():
    """In the order of the layers, the array's weights wait behind words for which the vector ring has no room."""
    made = planned(deep(), PRODUCT)
    found = clocks((made, predicted_spans(made.program, PRODUCT)))
    commands = merged(made, PRODUCT)
    program = emit(commands)
    assert clocks((replace(made, program=program), predicted_spans(program, PRODUCT))) < 0.98 * found


def test_no_piece_comes_much_sooner_than_it_is_needed():
    """It would take ports from the loads of inputs, and stop the program, which hands commands to all engines, at a full queue."""
    made = planned(thin(), PRODUCT)
    slowly = [replace(span, begin=1000 * span.begin, end=1000 * span.end) for span in predicted_spans(made.program, PRODUCT)]
    begins = {id(command): span.begin for command, span in zip(made.commands, slowly, strict=True)}
    commands = merged_weights(made.commands, slowly, PRODUCT)
    lead = weight_order.LEAD * PRODUCT.ring_words * PRODUCT.ring_word_bytes / ddr_rate(PRODUCT)
    readers = [command for command in commands if command.engine == "conv"]
    streams = [number for number, command in enumerate(commands) if command.engine == "weight"]
    for number, reader in zip(streams, readers, strict=True):
        following = next(command for command in commands[number:] if command.engine != "weight")
        assert following is reader or begins[id(following)] > begins[id(reader)] - lead
