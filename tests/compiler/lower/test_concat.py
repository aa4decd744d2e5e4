"""Concatenations are stored in place wherever producers can write there, and copied only where they cannot."""

import numpy as np
import pytest

from cnna.compiler.graph import ir
from cnna.compiler.lower.concat import store_tensors
from cnna.compiler.lower.kernels import View

from ...graph_builder import Builder


@pytest.fixture
def b():
    return Builder(np.random.default_rng(1), "concat")


def same(b, x, channels):
    """A tensor of that many channels made from x, with x's zero point, so that a concatenation takes it as it is."""
    window = ir.Window()
    out = ir.Clamp(b.zero(x))
    fields = b.sum_fields(window, (channels, b.shape(x)[0]))
    return b.node(ir.Conv(window, 1, **fields, out=out), (x,), (channels, *b.shape(x)[1:]), b.zero(x))


def test_whole_blocks_are_written_in_place(b):
    x = b.input(4, 3, 3)
    left, right = same(b, x, 8), same(b, x, 6)
    y = b.concat(left, right)
    stored = store_tensors(b.graph(y), 4)
    assert stored.views[left] == View(y, 0, 2)
    assert stored.views[right] == View(y, 2, 2)
    assert stored.copies[y] == ()
    assert not stored.stacks


def test_chains_end_in_one_map(b):
    """In DenseNet each concatenation takes the one before and a little more: nothing may be copied."""
    x = b.input(4, 3, 3)
    parts = [same(b, x, 4)]
    y = parts[0]
    for _ in range(3):
        parts.append(same(b, y, 4))
        y = b.concat(y, parts[-1])
    stored = store_tensors(b.graph(y), 4)
    assert [stored.views[part] for part in parts] == [View(y, n, 1) for n in range(4)]
    assert not any(stored.copies.values())


def test_prefixes_of_a_later_concatenation_are_views_of_it(b):
    """As PyTorch writes DenseNet, every concatenation lists all earlier parts: still nothing may be copied."""
    x = b.input(4, 3, 3)
    parts, ends = [same(b, x, 4), same(b, x, 8)], []
    for _ in range(3):
        ends.append(b.concat(*parts))
        parts.append(same(b, ends[-1], 4))
    last = b.concat(*parts)
    stored = store_tensors(b.graph(last), 4)
    assert not any(stored.copies.values())
    assert [stored.views[end] for end in ends] == [View(last, 0, n) for n in (3, 4, 5)]


def test_off_block_boundaries_the_inputs_are_stacked(b):
    """The inputs must lie side by side, each in whole blocks; the selection packs them afterwards."""
    x = b.input(4, 3, 3)
    left, right = same(b, x, 6), same(b, x, 4)
    y = b.concat(left, right)
    stored = store_tensors(b.graph(y), 4)
    stack = stored.stacks[y]
    assert stack.blocks == 3
    assert stored.views[left] == View(stack.map, 0, 2)
    assert stored.views[right] == View(stack.map, 2, 1)
    assert stored.views[y] == View(y, 0, 3)


def test_what_cannot_be_in_two_places_is_copied(b):
    """Graph inputs, graph outputs and the second of two uses must be copied."""
    x = b.input(4, 3, 3)
    once = same(b, x, 4)
    y, z = b.concat(x, once), b.concat(once, once)
    stored = store_tensors(b.graph(y, z), 4)
    assert [tensor for tensor, _ in stored.copies[y]] == [x, once]  # the later concatenation has `once`
    assert stored.copies[z] == ((once, View(z, 1, 1)),)
    assert stored.views[once] == View(z, 0, 1)
    shown = store_tensors(b.graph(y, z, once), 4)
    assert shown.views[once] == View(once, 0, 1)


def test_views_never_overlap(b):
    """Two tensors that are live apart may share a block of a map only if one is a concatenation of the other."""
    x = b.input(4, 3, 3)
    parts = [same(b, x, n) for n in (4, 8, 12)]
    y = b.concat(b.concat(parts[0], parts[1]), parts[2])
    stored = store_tensors(b.graph(y), 4)
    taken = [n for part in parts for n in range(stored.views[part].block, stored.views[part].block + stored.views[part].blocks)]
    assert len(taken) == len(set(taken)) == stored.maps[y].blocks


@pytest.mark.parametrize("other", ["order", "map"])
def test_parts_that_lie_elsewhere_are_copied(b, other):
    """Taken for a run of blocks, the concatenation would read blocks of another tensor."""
    x = b.input(4, 3, 3)
    parts = [same(b, x, 4) for _ in range(4)]
    wanted = (parts[1], parts[0]) if other == "order" else (parts[0], parts[3])
    first = b.concat(*wanted)
    rows = [b.concat(*parts[:2]), b.concat(*parts[2:])]
    stored = store_tensors(b.graph(*(same(b, tensor, 4) for tensor in (first, *rows))), 4)
    assert stored.views[first] == View(first, 0, 2)
    assert [name for name, _ in stored.copies[first]] == list(wanted)


@pytest.mark.parametrize(("first", "view"), [(4, True), (2, False), (5, False)])
def test_channels_from_a_whole_block_on_are_a_view(b, first, view):
    """Off a block's border their words do not begin where the map's do: they must be copied."""
    x = b.input(12, 3, 3)
    y = b.node(ir.Channels(first), (x,), (4, 3, 3), b.zero(x))
    stored = store_tensors(b.graph(same(b, y, 4)), 4)
    assert stored.views[y] == (View(x, 1, 1) if view else View(y, 0, 1))
    shown = store_tensors(b.graph(y), 4)
    assert shown.views[y] == View(y, 0, 1)  # an output is stored for itself
