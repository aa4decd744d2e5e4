"""The vector engine with real feature memory and ring, against the emulator's `vector`; under Verilator."""

import numpy as np
import pytest

from cnna.spec.config import Config, preset
from cnna.spec.regmap import COUNTED, VECTOR_OPS

from ...configurations import ODD
from ...rigs.engine_cases import Cases, compared

CONFIGS = {"tiny": preset("tiny"), "odd": ODD}
WIDE_WORDS = Config("words", pix=2, ci=16, co=16, ports=2, regions=1, bank_words=1024, ring_words=64, vector_ring_words=256)
SQUARE = {"out_width": 8, "out_height": 8, "images": 1, "in_width": 8, "in_height": 8, "first_x": -1, "first_y": -1}
STEPS = {"stride_x": 1, "stride_y": 1, "stride_dilation_x": 1, "stride_dilation_y": 1}

pytestmark = pytest.mark.cosim


def random_run(config, slow_ring, seed):
    """Random commands without a pause, each operation in turn. With `slow_ring` one word comes in ten clocks."""
    rng = np.random.default_rng([seed, slow_ring])
    cases = Cases(config, "vector", rng, tables=True)
    for number in range(18):
        cases.vector(op=number % len(VECTOR_OPS))
    clocks = 3000 + 2 * cases.steps + slow_ring * 12 * len(cases.ring_words)
    compared(cases, rng, clocks, pace=(rng.random(clocks) < 0.1).astype(np.uint8) if slow_ring else None)


@pytest.mark.parametrize("slow_ring", [False, True])
@pytest.mark.parametrize("name", CONFIGS)
def test_random_commands_equal_the_emulator(name, slow_ring, seed):
    """Operations, uniform parameters, padding, strides, partial groups and units, or waits on own units would go wrong."""
    random_run(CONFIGS[name], slow_ring, seed)


@pytest.mark.slow
def test_words_of_16_channels_and_units_of_one_block(seed):
    """Other configurations lack these sizes."""
    random_run(WIDE_WORDS, False, seed)


@pytest.mark.parametrize(
    ("op", "kernel", "least"), [("depthwise", 3, 0.97), ("average", 3, 0.98), ("elementwise", 2, 0.98), ("product", 2, 0.98)]
)
def test_steps_follow_each_other(op, kernel, least, seed):
    """A depthwise pass spends a few clocks a block on parameters, other operations none. A bubble would cost more."""
    rng = np.random.default_rng(seed)
    cases = Cases(CONFIGS["tiny"], "vector", rng)
    height = 1 if kernel == 2 else kernel
    cases.vector(op=VECTOR_OPS.index(op), kernel_width=kernel, kernel_height=height, blocks=5, uniform=0, **SQUARE, **STEPS)
    trace = compared(cases, rng, 3000)
    first, *_, last = np.nonzero(trace.active)[0]
    share = trace.active.sum() / (last - first + 1)
    assert share >= least, f"active {share:.3f} of the time"


def test_commands_of_one_group_with_tables(seed):
    """A table would be loaded while a group still needs its bank, or a group would end before its table has been written."""
    rng = np.random.default_rng(seed)
    cases = Cases(CONFIGS["tiny"], "vector", rng, tables=True)
    for number in range(24):
        cases.vector(op=number % len(VECTOR_OPS), out_width=2, out_height=1, images=1, kernel_width=1, kernel_height=1, blocks=1)
    compared(cases, rng, 6000)


@pytest.mark.parametrize("name", CONFIGS)
def test_products_of_small_maps_between_other_commands(name, seed):
    """Odd pixels of a command's last group are multiplied a clock after its last step: by zero points of the next command, or while
    one of its groups ends.
    """
    rng = np.random.default_rng([seed, 1])
    cases = Cases(CONFIGS[name], "vector", rng, tables=True)
    small = {"out_width": 3, "out_height": 1, "images": 1, "blocks": 1, "uniform": 1}
    for number in range(30):
        zeros = {"pad": (-128, 127)[number & 1], "b_zero": (-128, 127)[number >> 1 & 1]}
        other = VECTOR_OPS.index("product") if number % 3 else number // 3 % len(VECTOR_OPS)
        cases.vector(op=other, b_flat=number % 2, kernel_width=1, kernel_height=1, **small, **zeros)
    compared(cases, rng, 8000)


def test_units_wait_for_other_engines(seed):
    """Unit u, of chunk_blocks blocks, must not begin before the other engine's unit `count + u` is done; a short unit is one."""
    rng = np.random.default_rng(seed)
    cases = Cases(CONFIGS["tiny"], "vector", rng)
    command = cases.vector(op=2, blocks=5)
    command.wait_conv_enable, command.wait_conv_step, command.wait_conv_count = 1, 1, 1
    pulses = np.array([300, 1400, 2400])
    others = np.zeros(4000, np.uint8)
    others[pulses] = 1 << COUNTED.index("conv")
    trace = compared(cases, rng, 4000, others=others)
    active = np.nonzero(trace.active)[0]
    for number, pulse in enumerate(pulses):
        begun = active[2 * number * len(active) // 5]
        assert pulse < begun < pulse + 60, f"unit {number} began at {begun}"
    assert np.diff(np.searchsorted(pulses, np.nonzero(trace.unit)[0])).tolist() == [1, 1]
