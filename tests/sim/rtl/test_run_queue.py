"""The queue of runs on the RTL: random hosts at every pace, and the clocks between two runs."""

import numpy as np
import pytest

from cnna.sim.rtl.cosim import CosimDevice
from cnna.sim.rtl.linked_models import SETTINGS, board_settings
from cnna.spec.config import preset
from cnna.spec.regmap import NO_LIMIT, REGISTERS, offset

from ...rigs.queueing_host import CAUSES, QueueingHost

CONFIG = preset("tiny")
GAPS = (0, 0, 0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 900)  # clocks between two acts of a host
ACTS = {"queue": 0.5, "start": 0.1, "reset": 0.06, "clear_done": 0.1, "read_counters": 0.16, "read_back": 0.08}
FAILING = 0.12  # of all runs
SEQUENCES = 200
MEMORIES: tuple[dict[str, int], ...] = (
    {},
    {"latency": 1, "write_latency": 1},
    {"stall": 128},
    {"latency": 150, "write_latency": 90, "stall": 40},
)


def play(device: CosimDevice, seed: int) -> None:
    """One host's sequence of acts."""
    rng = np.random.default_rng(seed)
    defaults = {name: SETTINGS[name][0] for name in ("stall",)} | board_settings(device.config)
    device.set_ddr(**(defaults | MEMORIES[rng.integers(len(MEMORIES))]))
    host = QueueingHost(device, rng)
    paces = rng.choice(GAPS, 3)
    for act in rng.choice(list(ACTS), rng.integers(4, 16), p=list(ACTS.values())):
        if act in ("queue", "start"):
            host.submit(act, str(rng.choice(list(CAUSES))) if rng.random() < FAILING else "copy")
        else:
            getattr(host, act)()
        device.run_clocks(int(rng.choice(paces)))
    host.settle()


def hosts(device: CosimDevice, seeds: range) -> None:
    """All of them, on a device that gets back what it had."""
    try:
        for seed in seeds:
            try:
                play(device, seed)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {error}") from error
    finally:
        device.clear_faults()
        device.set_ddr(stall=SETTINGS["stall"][0], **board_settings(device.config))
        device.write(offset("CTRL"), REGISTERS["CTRL"].pack(soft_reset=1))
        for name, word in (("WATCHDOG", 1_000_000), ("RUN_LIMIT", 0), ("SEG_OUTPUT_BYTES", NO_LIMIT)):
            device.write(offset(name), word)


@pytest.mark.cosim
def test_no_run_is_lost_mixed_or_hung(rtl, seed):
    """A start, a reset, a fault or a read at some moment would lose a run, let two of them mix, or hang the accelerator."""
    hosts(rtl(CONFIG), range(seed * 100_000, seed * 100_000 + SEQUENCES))


@pytest.mark.cosim
@pytest.mark.slow
@pytest.mark.parametrize("part", range(1, 15))
def test_no_run_is_lost_mixed_or_hung_in_3000(rtl, seed, part):
    """As above, for moments that some 200 hosts do not meet."""
    hosts(rtl(CONFIG), range(seed * 100_000 + part * SEQUENCES, seed * 100_000 + (part + 1) * SEQUENCES))
