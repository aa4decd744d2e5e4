"""The random hosts that queue runs of the RTL, on the emulator: both must keep the same book."""

import numpy as np
import pytest

from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.spec.config import preset
from cnna.spec.errors import RunError
from cnna.spec.regmap import REGISTERS, offset

from ...rigs import queueing_host

ACTS = {"queue": 0.5, "start": 0.14, "reset": 0.08, "clear_done": 0.1, "read_counters": 0.1, "read_back": 0.08}
FAILING = 0.12  # of all runs
KINDS = ("illegal", "outside", "limit", "hang")  # its memory gives no bad answers
HOSTS = 200
MEMORY_BYTES = 1 << 22


class LateEmulator(EmulatorDevice):
    """An emulator whose programs begin and end only now and then, as those of an accelerator take time."""

    def __init__(self, rng):
        super().__init__(preset("tiny"), MEMORY_BYTES)
        self.rng = rng
        self._plays = False  # the program that has begun is to be played

    def write(self, offset, value):
        self._step(0.2)
        self.set(offset, value)

    def run_clocks(self, clocks):
        self._step(0.9)

    def clear_faults(self):
        """There are none."""

    def _step(self, probability):
        if self.rng.random() < probability:
            if self._busy and self._plays:
                self._plays = False
                super()._play_all()
            else:
                self.follow()

    def _play_all(self):
        self._plays = True


@pytest.mark.parametrize("number", range(HOSTS))
def test_the_emulator_keeps_the_book_of_the_rtl(number, seed, monkeypatch):
    """A host that was tried on the emulator would meet other answers, counts or runs on an accelerator."""
    monkeypatch.setattr(queueing_host, "LIMIT_CLOCKS", 1)  # an engine's commands alone must take longer
    rng = np.random.default_rng([seed, number])
    device = LateEmulator(rng)
    host = queueing_host.QueueingHost(device, rng)
    for act in rng.choice(list(ACTS), rng.integers(4, 16), p=list(ACTS.values())):
        if act in ("queue", "start"):
            host.submit(act, str(rng.choice(KINDS)) if rng.random() < FAILING else "copy")
        else:
            getattr(host, act)()
    host.settle()


@pytest.mark.parametrize("how", ["start", "begin"])
def test_a_start_while_busy_is_refused(how):
    """A host would take the answers of a program that never began, where an accelerator answers SLVERR."""
    device = EmulatorDevice(preset("tiny"), 1 << 16)
    device.write(offset("CTRL"), REGISTERS["CTRL"].pack(begin=1))
    with pytest.raises(RunError, match="SLVERR to CTRL: it is busy"):
        device.write(offset("CTRL"), REGISTERS["CTRL"].pack(**{how: 1}))
    assert REGISTERS["STATUS"].unpack(device.read(offset("STATUS")))["busy"]
