"""Maps that live at the same time never share memory, on chip or in DDR, and none lies outside it."""

from itertools import combinations

import numpy as np
import pytest

from cnna.compiler.graph import ir
from cnna.compiler.lower.kernels import views_of
from cnna.compiler.lower.layout import SEGMENT_ALIGN, map_words
from cnna.compiler.lower.lower import lower
from cnna.compiler.plan import allocate as allocation
from cnna.compiler.plan.allocate import activation_bytes, allocate, streamed_ports
from cnna.spec.config import Config, preset

from ... import networks
from ...graph_builder import Builder

LITTLE = Config("little", pix=2, ci=4, co=8, ports=1, regions=1, bank_words=1024, ring_words=64, vector_ring_words=256)


def meet(a, b):
    return a[0] < b[1] and b[0] < a[1]


@pytest.mark.parametrize("config", [LITTLE, preset("tiny")], ids=lambda config: config.name)
@pytest.mark.parametrize("batch", [1, 3])
def test_live_maps_lie_apart(config, batch):
    spilled = 0
    for case in range(25):
        lowered = lower(networks.network(case, 8), config, batch)
        found = allocate(lowered, config, "case")
        on_chip = {m: (p.base, p.base + map_words(lowered.maps[m])) for m, p in found.features.items()}
        in_ddr = {m: (p.offset, p.offset + batch * p.image_bytes) for m, p in found.ddr.items()}
        for places in (on_chip, in_ddr):
            for a, b in combinations(places, 2):
                apart = not meet(found.lifetimes[a], found.lifetimes[b])
                elsewhere = places is in_ddr and found.ddr[a].segment != found.ddr[b].segment
                assert apart or elsewhere or not meet(places[a], places[b]), f"networks.network({case}, 8): {a} and {b}"
        assert all(0 <= low < high <= config.feature_words for low, high in on_chip.values())
        assert all(high <= found.segments[found.ddr[m].segment] for m, (_, high) in in_ddr.items())
        for name, tiling in zip(lowered.kernels, found.tilings, strict=True):
            assert name.dest.map in found.features or "dest" in tiling.staging
        spilled += len(set(found.lifetimes) - set(found.features))
    assert spilled or config is not LITTLE  # otherwise the case would test nothing


def test_staging_lies_apart_from_what_lives():
    """A tile that is staged over a map on chip would destroy that map."""
    for case in range(25):
        lowered = lower(networks.network(case, 8), LITTLE)
        found = allocate(lowered, LITTLE, "case")
        for time, tiling in enumerate(found.tilings):
            for name, place in found.features.items():
                if found.lifetimes[name][0] <= time < found.lifetimes[name][1]:
                    taken = (place.base, place.base + map_words(lowered.maps[name]))
                    assert not any(taken[0] <= base < taken[1] for bases in tiling.staging.values() for base in bases)


def test_ports_have_pages_of_their_own():
    b = Builder(np.random.default_rng(1), "ports")
    y = b.add(b.input(3, 4, 4), b.input(3, 4, 4))
    found = allocate(lower(b.graph(y), LITTLE, 2), LITTLE, "ports")
    ports = [found.ddr[name] for name in (*b.inputs, y)]
    assert [port.segment for port in ports] == ["input", "input", "output"]
    assert all(port.offset % SEGMENT_ALIGN == 0 for port in ports)
    assert ports[0].offset != ports[1].offset


def test_a_place_stays_reserved_if_memory_allows():
    """If a pool's output lay on the input of the convolution before it, their chunks could not overlap."""
    b = Builder(np.random.default_rng(1), "rest")
    x = b.input(8, 8, 8)
    y = b.max_pool(b.conv(x, 16, ir.Window()), ir.Window((2, 2), (2, 2)))
    lowered, config = lower(b.graph(y), preset("tiny")), preset("tiny")
    found = allocate(lowered, config, "rest").features
    spans = [(found[m].base, found[m].base + map_words(lowered.maps[m])) for m in (x, y)]
    assert not meet(*spans)


def test_a_large_input_is_loaded_in_bands_beside_its_convolution():
    """Loaded as a whole before its convolution, a large input would stop the array meanwhile; a small one would gain nothing."""
    for side, banded in ((96, True), (8, False)):
        b = Builder(np.random.default_rng(1), "bands")
        y = b.conv(b.conv(b.input(3, side, side), 8, ir.Window((7, 7), (2, 2), pads=(3, 3, 3, 3))), 8, ir.Window())
        lowered = lower(b.graph(y), preset("zcu102"))
        found = allocate(lowered, preset("zcu102"), "bands")
        assert ("source" in found.tilings[0].staging) == banded


@pytest.mark.parametrize("batch", [1, 3])
def test_maps_share_memory_by_lifetime(batch):
    """In a dense block, concatenation in place and lifetimes need two wide maps; a buffer for each tensor would need them all."""
    b = Builder(np.random.default_rng(1), "dense")
    x = b.conv(b.input(4, 8, 8), 4, ir.Window())
    for _ in range(12):
        x = b.concat(x, b.conv(b.affine(x), 4, ir.Window()))
    lowered = lower(b.graph(b.conv(x, 4, ir.Window())), preset("tiny"), batch)
    found = activation_bytes(lowered, preset("tiny"))
    # Channels: concatenation, its affine, its newest map; and both ends.
    tensors = 4 * sum(n + 1 + n + 1 for n in range(1, 13)) + 3 * 4
    assert found["separate"] >= tensors * 64 * batch
    assert (13 + 12) * 4 * 64 * batch <= found["alive"] < 0.2 * found["separate"]


def test_the_answers_of_a_batch_are_stored_after_all_of_them():
    """In bands of an image, a fully connected layer would fetch its weights, which are all of its time, once for each image."""
    b = Builder(np.random.default_rng(1), "answers")
    y = b.fully_connected(b.conv(b.input(16, 1, 1), 2048, ir.Window()), 1000)
    lowered, config = lower(b.graph(y), preset("zcu102"), 4), preset("zcu102")
    (last,) = allocate(lowered, config, "answers").tilings[-1:]
    assert not last.staging
    assert last.images == 4


def test_each_kernel_is_looked_at_once_for_all_ports(monkeypatch):
    """A network of 200 fully connected layers with inputs of their own took 50 processor seconds to compile, a fifth of it here."""
    looked = []
    monkeypatch.setattr(allocation, "views_of", lambda kernel: looked.append(kernel) or views_of(kernel))
    b = Builder(np.random.default_rng(1), "heads")
    x = b.conv(b.input(4, 1, 1), 8, ir.Window())
    lowered = lower(b.graph(*(b.fully_connected(b.add(x, b.input(8, 1, 1)), 4) for _ in range(20))), preset("tiny"), 2)
    streamed_ports(lowered, preset("tiny"))
    assert len(lowered.kernels) == 41
    assert len(looked) <= 2 * len(lowered.kernels)
