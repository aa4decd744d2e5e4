"""Commands touch the words that they declare, and their order is right if they run one by one."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from cnna.compiler.compile import compile_graph
from cnna.compiler.cost.cost import moving_clocks
from cnna.compiler.graph import ir
from cnna.compiler.lower.layout import FeaturePlace, listed
from cnna.compiler.lower.lower import lower
from cnna.compiler.lower.weights import constant_segment
from cnna.compiler.plan.allocate import allocate
from cnna.compiler.plan.command import PlanContext, signed
from cnna.compiler.plan.hazards import words_of
from cnna.compiler.plan.schedule import joined_run, schedule, stream_keys
from cnna.sim.emulator import walk
from cnna.spec.config import Config, preset
from cnna.spec.program.commands import commands
from cnna.spec.program.decks import located, sets_on, word_number
from cnna.spec.regmap import DECK_BIT

from ... import networks
from ...agreement import narrow
from ...graph_builder import Builder

LITTLE = Config("little", pix=2, ci=4, co=8, ports=1, regions=1, bank_words=512, ring_words=64, vector_ring_words=256)


def commands_of(graph, config, batch=1):
    lowered = lower(graph, config, batch)
    allocation, keys = allocate(lowered, config, "case"), stream_keys(lowered)
    offsets = constant_segment([lowered.kernels[k].parts[p].stream for k, p in keys]).offsets
    return schedule(PlanContext(lowered, allocation, dict(zip(keys, offsets, strict=True)), config))


def walked(command, config):
    """The numbers of the words that a conv or vector command reads and writes, by the emulator's walk."""
    f, depth, conv = SimpleNamespace(**command.fields), config.depth, command.engine == "conv"
    n = np.arange(walk.pixels(f))
    n = n if conv or not f.window_columns else n[n % f.out_width < f.window_columns]  # what further lanes compute is dropped

    def numbers(addresses, deck):
        return word_number(located(addresses, deck, depth), config.deck_words, depth).reshape(-1)

    def plane(name, count):
        more, deck = walk.blocks(f, name, np.arange(count)[:, None], depth)
        return numbers(walk.plane(f, name, n) + more, deck)

    outside = walk.taps_outside(f, n)
    taps = walk.source(f, n)[:, None] + walk.tap_steps(f)
    across = np.broadcast_to(f.src_kx >> DECK_BIT & np.arange(len(taps[0])) % f.kernel_width, taps.shape)
    flat = not conv and f.b_flat
    if flat:
        taps, across, outside = taps[:, 1:], across[:, 1:], None
    inside, across = (part if outside is None else part[~outside] for part in (taps, across))
    blocks = np.arange(f.blocks)[:, None]
    more, deck = (blocks * f.src_block, 0) if conv else walk.blocks(f, "src", blocks, depth)
    if conv:  # all blocks of a set
        read = np.concatenate([numbers(inside.reshape(1, -1) + more, one) for one in range(depth)])
    else:
        read = numbers(inside.reshape(1, -1) + more, deck ^ across.reshape(1, -1))
    if flat:
        read = np.append(read, numbers(f.src + sets_on(f.src, blocks, depth) * f.b_block, deck))
    if conv and f.res_enable:
        read = np.append(read, plane("res", f.dst_blocks))
    return set(read.tolist()), set(plane("dst", f.dst_blocks if conv else f.blocks).tolist())


def declared(accesses, units, config):
    found = set()
    for access in accesses:
        if isinstance(access.place, FeaturePlace):
            for unit in range(units if access.unit_blocks else 1):
                found |= set(listed(words_of(access, unit, config.deck_words)[1]).tolist())
    return found


@pytest.mark.parametrize("config", [preset("tiny"), preset("tinyx2")], ids=lambda config: config.name)
@pytest.mark.parametrize("kind", networks.LAYERS)
def test_commands_declare_every_word_they_touch(kind, config):
    """Nothing waits for words that `hazards` is not told of. Writes are declared exactly, reads with room for strides."""
    for number in range(4):
        for command in commands_of(narrow(networks.layer(number, kind), config), config, 1 + number % 2):
            if command.engine in ("conv", "vector"):
                read, written = walked(command, config)
                assert read <= declared(command.reads, command.units, config), f"networks.layer({number}, {kind!r})"
                assert written == declared(command.writes, command.units, config), f"networks.layer({number}, {kind!r})"


def test_two_operands_with_other_steps_are_walked_apart():
    """With one operand on chip and one staged in bands, block steps differ, so every block must be a command of its own."""
    b = Builder(np.random.default_rng(1), "add")
    x = b.input(16, 12, 12)
    y = b.add(b.copy(x), b.affine(x))
    for command in commands_of(b.graph(y), LITTLE):
        if command.engine == "vector" and command.fields["kernel_width"] == 2 and command.fields["blocks"] > 1:
            first, second = (access.place for access in command.reads)
            assert first.block_words == second.block_words


def test_the_old_channels_of_a_concatenation_do_not_wait_for_the_new():
    """An affine over both halves of a concatenation must begin with the old half while the array makes the other.

    Without a command of its own, the old half would wait for the array too (DenseNet-121: 911 k clocks instead of 807 k).
    """
    b = Builder(np.random.default_rng(3), "dense")
    x = b.input(16, 8, 8)
    old = b.conv(x, 16, ir.Window())
    new = b.conv(old, 8, ir.Window((3, 3), pads=(1, 1, 1, 1)))
    b.tensors[new] = replace(b.tensors[new], quant=b.tensors[old].quant)  # so that the concatenation needs no copy
    graph = b.graph(b.affine(b.concat(old, new)))
    program = list(commands(compile_graph(graph, preset("tiny")).program))
    made = [command.f for command in program if command.engine == "vector"]
    units = [command.units(preset("tiny").chunk_blocks) for command in program if command.engine == "conv"]
    assert [f.blocks for f in made] == [4, 2]
    assert made[0].wait_conv_count <= units[0] < made[1].wait_conv_count == sum(units)


def test_weights_beyond_the_ring_are_streamed_a_chunk_at_a_time():
    """Each chunk needs its parameters once and its weights once a group, all before the next chunk's parameters."""
    b = Builder(np.random.default_rng(1), "stream")
    graph = b.graph(b.conv(b.input(40, 6, 6), 24, ir.Window((3, 3))))
    found = [c for c in commands(compile_graph(graph, LITTLE).program) if c.engine in ("weight", "conv")]
    assert [c.engine for c in found] == ["weight", "weight", "conv"] * 3
    for parameters, weights, conv in zip(found[::3], found[1::3], found[2::3], strict=True):
        assert parameters.f.repeat == 1
        assert weights.f.repeat == -(-conv.f.out_width * conv.f.out_height // LITTLE.pix)
        assert conv.f.stream == 1


def test_weights_of_a_single_group_are_not_streamed():
    """A fully connected layer takes each weight once and frees it, so the ring's size must not matter."""
    b = Builder(np.random.default_rng(1), "fc")
    graph = b.graph(b.fully_connected(b.input(400, 1, 1), 24))
    (conv,) = (c for c in commands(compile_graph(graph, LITTLE).program) if c.engine == "conv")
    assert (conv.f.stream, conv.f.chunks) == (0, 3)


def test_what_is_staged_already_is_not_loaded_again():
    """A convolution that is cut by output channels must read one band for all of them."""
    b = Builder(np.random.default_rng(1), "bands")
    x = b.input(16, 24, 40)
    y = b.conv(x, 96, ir.Window())
    found = commands_of(b.graph(y), LITTLE)
    bands = {(c.origin[0], c.origin[2]) for c in found if c.engine == "conv"}
    assert sum(c.engine == "load" for c in found) == len(bands)
    assert sum(c.engine == "conv" for c in found) >= len(bands)


@pytest.mark.parametrize(("value", "wanted"), [(0, 0), (-1, -1), (1 << 19, -(1 << 19)), ((1 << 20) + 5, 5)])
def test_steps_wrap_as_addresses_do(value, wanted):
    assert signed(value) == wanted


@pytest.mark.parametrize(
    ("words", "blocks"), [(28 * 112, 1), (29 * 112, 1), (56 * 56, 64), (28 * 28, 8), (7 * 7, 64), (1, 64), (16, 1)]
)
def test_runs_keep_every_port_busy(words, blocks):
    """A block of contiguous words must move as quickly as its beats allow; otherwise ports would take turns at a bank."""
    config = preset("zcu102")
    run = joined_run(words, blocks, config)
    fields = {"run": run, "runs": words // run, "fm_run": run, "blocks": blocks, "fm_block": words}
    assert words % run == 0
    assert moving_clocks(fields, config) == max(words * blocks // config.ports, run)
