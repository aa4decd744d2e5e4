"""The convolution engine with real feature memory and ring, against the emulator's `conv`; under Verilator."""

import numpy as np
import pytest

from cnna.hw.lanes.tables import WRITES
from cnna.spec.config import Config, preset
from cnna.spec.regmap import COUNTED

from ...configurations import ODD
from ...rigs.engine_bench import stalls
from ...rigs.engine_cases import Cases, compared

CONFIGS = {"tiny": preset("tiny"), "odd": ODD}
WIDE_WORDS = Config("words", pix=2, ci=16, co=16, ports=2, regions=1, bank_words=1024, ring_words=64, vector_ring_words=256)
PIXELS = {"out_width": 2, "out_height": 1, "images": 1, "kernel_width": 1, "kernel_height": 1}

pytestmark = pytest.mark.cosim


def random_run(config, slow_ring, seed, count=8):
    """Random commands without a pause. With `slow_ring` one beat comes in twenty clocks, at other times in each column."""
    rng = np.random.default_rng([seed, slow_ring])
    cases = Cases(config, "conv", rng, tables=True)
    for _ in range(count):
        cases.conv()
    beats = len(cases.ring_words) * config.stripe_bytes // 16
    clocks = 3000 + 3 * cases.steps + slow_ring * 25 * beats
    pace = None
    if slow_ring:
        pace = ((rng.random((clocks, config.ports)) < 0.05) << np.arange(config.ports)).sum(axis=1).astype(np.uint8)
    return cases, compared(cases, rng, clocks, pace=pace)


@pytest.mark.parametrize("slow_ring", [False, True])
@pytest.mark.parametrize("name", CONFIGS)
def test_random_commands_equal_the_emulator(name, slow_ring, seed):
    """Wrong padding, strides, partial groups or chunks, streams, residuals or waits on own units would change a word."""
    cases, trace = random_run(CONFIGS[name], slow_ring, seed)
    assert trace.started[-1] == len(cases.commands)
    if slow_ring:
        assert stalls(trace)["weights"] > 1000


@pytest.mark.slow
def test_words_of_16_channels_and_chunks_of_one_block(seed):
    """Other configurations lack these sizes: parameters in half a ring word, and a drain of one block."""
    random_run(WIDE_WORDS, False, seed, count=5)


def test_array_is_active_with_ample_weights(seed):
    """A 3x3 convolution with a residual must keep the array at work: a bubble between groups or chunks would cost clocks."""
    rng = np.random.default_rng(seed)
    cases = Cases(CONFIGS["tiny"], "conv", rng)
    square = {"out_width": 8, "out_height": 8, "images": 1, "in_width": 8, "in_height": 8, "first_x": -1, "first_y": -1}
    steps = {"stride_x": 1, "stride_y": 1, "stride_dilation_x": 1, "stride_dilation_y": 1}
    cases.conv(**square, **steps, kernel_width=3, kernel_height=3, blocks=3, chunks=3, stream=0, res_enable=1)
    trace = compared(cases, rng, 4000)
    first, *_, last = np.nonzero(trace.active)[0]
    share = trace.active.sum() / (last - first + 1)
    assert share >= 0.98, f"active {share:.3f} of the time"


def test_a_step_needs_less_than_its_drain(seed):
    """1x1 convolutions end groups faster than they drain: the head must hold back, lose nothing, and say why."""
    rng = np.random.default_rng(seed)
    cases = Cases(CONFIGS["tiny"], "conv", rng)
    cases.conv(out_width=9, out_height=5, images=3, kernel_width=1, kernel_height=1, blocks=1, chunks=3, stream=0)
    trace = compared(cases, rng, 3000)
    assert stalls(trace)["write_back"] > trace.active.sum()


def test_commands_of_one_group_with_tables(seed):
    """A table would be loaded while a group still needs its bank, or a group would end before its table has been written."""
    rng = np.random.default_rng(seed)
    cases = Cases(CONFIGS["tiny"], "conv", rng, tables=True)
    for number in range(24):
        cases.conv(**PIXELS, blocks=1, chunks=1, stream=0, res_enable=number % 2)
    trace = compared(cases, rng, 6000)
    assert stalls(trace)["write_back"] > WRITES


def test_a_table_holds_up_no_more_than_its_first_group(seed):
    """The array would wait for each group, or until the table is written before it takes a step."""
    rng = np.random.default_rng(seed)
    cases = Cases(CONFIGS["tiny"], "conv", rng)
    square = {"out_width": 8, "out_height": 8, "images": 1, "kernel_width": 3, "kernel_height": 3}
    cases.conv(**square, blocks=3, chunks=3, stream=0, table_load=1, table_use=1)
    trace = compared(cases, rng, 4000)
    first, *_, last = np.nonzero(trace.active)[0]
    held = stalls(trace)["write_back"]
    assert 0 < held <= WRITES
    assert last - first + 1 - trace.active.sum() <= held + 40


@pytest.mark.parametrize(("engine", "cause"), [("load", "feature"), ("vector", "token"), ("store", "store")])
def test_units_wait_for_other_engines(engine, cause, seed):
    """Unit u must not begin before the other engine's unit `count + u` is done, and the wait is booked under its cause."""
    rng = np.random.default_rng(seed)
    cases = Cases(CONFIGS["tiny"], "conv", rng)
    command = cases.conv(chunks=3, stream=0, res_enable=1)
    for part, value in (("enable", 1), ("step", 1), ("count", 2)):
        setattr(command, f"wait_{engine}_{part}", value)
    pulses = np.array([50, 400, 1400, 2400])  # the last three let the chunks go
    others = np.zeros(5000, np.uint8)
    others[pulses] = 1 << COUNTED.index(engine)
    trace = compared(cases, rng, 5000, others=others)
    active = np.nonzero(trace.active)[0]
    chunk = len(active) // 3
    for number, pulse in enumerate(pulses[1:]):
        begun = active[number * chunk]
        assert pulse < begun < pulse + 60, f"chunk {number} began at {begun}"
    assert stalls(trace)[cause] > 1000
