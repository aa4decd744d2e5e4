"""The simulated RTL behind the driver of a board, for a host that reacts late.

The driver is the one of a board whose registers are reached by calls (`host.model.queued`), so it keeps one run going and two
queued. Simulated time goes on while a register is read or written, and for `late_clocks` more from each end of a run until the
driver is told. What the host computes takes no simulated time.
"""

import itertools
import os
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np

from cnna.host.board.board_device import BoardDevice
from cnna.sim.rtl.cosim import CosimDevice
from cnna.spec.errors import TimedOutError
from cnna.spec.regmap import REGISTERS, offset

SLICE_CLOCKS = 500  # between two looks whether a run has ended
CYCLES = offset("CYCLES")

_numbers = itertools.count()


class Buffer(np.ndarray):
    """Memory of the simulated accelerator, as `pynq.allocate` gives it: the host has its own copy until `flush` or `invalidate`."""

    rtl: CosimDevice
    physical_address: int

    def flush(self) -> None:
        """Makes the accelerator see what the host has written."""
        self.rtl.store(self.physical_address, np.asarray(self))

    def invalidate(self) -> None:
        """Makes the host see what the accelerator has written."""
        self[:] = np.frombuffer(self.rtl.load(self.physical_address, self.size), np.uint8)

    def freebuffer(self) -> None:
        """Keeps the memory: it ends with the simulator."""


class LateBoard(BoardDevice):
    """A board with one simulated accelerator, on which nothing has run yet.

    begins: the clock in which a run began, by its number from 0 on; cycles: its clocks, by the accelerator's counter. A run that
    ended before the driver waited for it has no begin.
    """

    def __init__(self, rtl: CosimDevice, late_clocks: int) -> None:
        self.rtl, self.late_clocks = rtl, late_clocks
        self.begins, self.cycles = dict[int, int](), dict[int, int]()
        base = os.getpid() << 24 | next(_numbers)  # names the file of its turn
        super().__init__(SimpleNamespace(base_addr=base, read=self._noted, write=rtl.write), None, self._buffer)

    def wait(self, other: Callable[[], bool] = lambda: False, ended: Callable[[], bool] | None = None) -> None:
        """As of `BoardDevice`, but `late_clocks` after the end. TimedOutError: `limit_clocks` have passed without one."""
        over, began = ended or self.ended, self.rtl.clocks
        while not over():
            if other():
                return
            self._note_begin()
            self.rtl.run_clocks(SLICE_CLOCKS)
            if self.limit_clocks is not None and self.rtl.clocks - began > self.limit_clocks:
                raise TimedOutError(f"the accelerator hangs: no run has ended in {self.limit_clocks:,} clocks")
        self.rtl.run_clocks(self.late_clocks)

    def _note_begin(self) -> None:
        """Notes when the run that runs has begun, if the counters are its own."""
        number = self._field("FINISHED", "runs")
        own = self._field("CTRL", "live") or not self._field("QUEUE", "queued")
        if own and number not in self.begins:
            began = self.rtl.clocks - self.rtl.read(CYCLES)
            if self._field("FINISHED", "runs") == number:
                self.begins[number] = began

    def _noted(self, at: int) -> int:
        """A read of the driver's, which reads CYCLES when it has seen the end of a run, and no other has ended."""
        word = self.rtl.read(at)
        if at == CYCLES:
            self.cycles[self._field("FINISHED", "runs") - 1] = word
        return word

    def _field(self, name: str, field: str) -> int:
        return REGISTERS[name].unpack(self.rtl.read(offset(name)))[field]

    def _buffer(self, size: int) -> Buffer:
        made = np.zeros(size, np.uint8).view(Buffer)
        made.rtl, made.physical_address = self.rtl, self.rtl.allocate(size)
        return made
