"""The run loop with an interrupt: a UIO file that a pair of sockets plays, and a thread that plays the accelerator."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from cnna.host.native import library
from cnna.host.native.library import CPort, CTensor
from cnna.host.native.loop import FOREVER_SECONDS, Input, Loop, Program, Registers

CTRL, STATUS, CYCLES = 0, 1, 3  # words
START, DONE, ERROR, MARK = 1, 2, 4, 8  # MARK: the accelerator wrote STATUS, not the host
LOOK_SECONDS = 0.2  # the loop looks at STATUS after so long, whatever the interrupt says
ARMED = (1).to_bytes(4, "little")


class Accelerator:
    """Ends each run after some seconds, and then calls `interrupt`."""

    def __init__(self) -> None:
        self.words = np.zeros(16, np.uint32)
        self.words[STATUS] = MARK
        self.run_seconds, self.over = 0.02, False
        self.interrupt: Callable[[], object] = lambda: None
        self.thread = threading.Thread(target=self._play, daemon=True)
        self.thread.start()

    def _play(self) -> None:
        while not self.over:
            if not self.words[STATUS] & MARK:
                self.words[STATUS] = MARK
            if self.words[CTRL] & START:
                self.words[CTRL] = 0
                time.sleep(self.run_seconds)
                self.words[STATUS] = MARK | DONE
                self.interrupt()
            time.sleep(1e-5)


@pytest.fixture
def accelerator() -> Iterator[Accelerator]:
    """It ends with the test."""
    made = Accelerator()
    yield made
    made.over = True
    made.thread.join()


@pytest.fixture
def uio() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The loop's file, and the kernel's end of it."""
    ours, kernels = socket.socketpair()
    kernels.setblocking(False)
    yield ours, kernels
    for end in (ours, kernels):
        end.close()


def opened(accelerator: Accelerator, uio: int) -> Loop:
    port = CPort(4, 16, 16, 8, (1, 2, 2), (1, 1), (1, 1), (0, 0), 0, 1.0)
    memories = [[np.zeros(16, np.uint8), np.zeros(16, np.uint8)] for _ in range(2)]
    program = Program(1, [port], [port], [[(8, 1)], [(8, 2)]], memories)
    return Loop(
        Registers(accelerator.words, 4 * CTRL, START, 4 * STATUS, DONE, ERROR, [], [4 * CYCLES], uio), [program], 20.0, None
    )


def run_seconds(loop: Loop) -> float:
    """One run, and how long it takes."""
    x, y = np.zeros((1, 1, 2, 2), np.int8), np.zeros((1, 1, 2, 2), np.float32)
    tensor = CTensor(x.ctypes.data, library.INT8, x.shape, x.strides)
    began = time.monotonic()
    loop.submit(0, [Input(tensor, x, None)], [y])
    while (code := loop.wait(FOREVER_SECONDS)) != library.OK:
        assert code == library.EXPIRED
        assert time.monotonic() - began < 20
    return time.monotonic() - began


def armed(kernels: socket.socket) -> int:
    """How often the loop has armed the interrupt since it was asked last."""
    try:
        said = kernels.recv(1 << 16)
    except BlockingIOError:
        return 0
    assert said == ARMED * (len(said) // len(ARMED))
    return len(said) // len(ARMED)


def test_an_interrupt_ends_the_wait(accelerator: Accelerator, uio: tuple[socket.socket, socket.socket]) -> None:
    """The thread would look at STATUS again and again, or sleep beyond the end of each run."""
    ours, kernels = uio
    accelerator.interrupt = lambda: kernels.send(ARMED)
    loop = opened(accelerator, os.dup(ours.fileno()))
    seconds = [run_seconds(loop) for _ in range(10)]
    assert min(seconds) < LOOK_SECONDS, "of several, since the machine may be busy"
    assert 1 <= armed(kernels) < 60, "a thread that polls arms it thousands of times"
    loop.close()


def test_a_run_that_ends_while_the_interrupt_is_armed_is_seen(
    accelerator: Accelerator, uio: tuple[socket.socket, socket.socket]
) -> None:
    """An edge that came too early would be lost: the run would take as long as a look at its progress, and the next be polled."""
    ours, kernels = uio
    accelerator.interrupt = lambda: drained(kernels)
    loop = opened(accelerator, os.dup(ours.fileno()))
    for _ in range(3):  # the loop stands in its write until the run has ended
        fill(ours)
        run_seconds(loop)
    drained(kernels)
    accelerator.interrupt = lambda: None
    run_seconds(loop)
    assert armed(kernels), "interrupts are still waited for"
    loop.close()


def fill(end: socket.socket) -> None:
    """Lets the next write wait until the other end is read."""
    end.setblocking(False)
    try:
        while True:
            end.send(ARMED)
    except BlockingIOError:
        end.setblocking(True)


def drained(end: socket.socket) -> None:
    """Reads what is there."""
    while armed(end):
        pass


def test_interrupts_that_do_not_come_are_given_up(accelerator: Accelerator, uio: tuple[socket.socket, socket.socket]) -> None:
    """A UIO device of another line would make each run take as long as a look at its progress."""
    ours, kernels = uio
    loop = opened(accelerator, os.dup(ours.fileno()))
    for _ in range(2):
        assert run_seconds(loop) >= LOOK_SECONDS - 0.05
        assert armed(kernels)
    accelerator.run_seconds = 0.05
    assert min(run_seconds(loop) for _ in range(3)) < LOOK_SECONDS
    assert not armed(kernels), "it is polled from then on"
    loop.close()


@pytest.mark.parametrize("how", ["closed", "not writable"])
def test_a_file_that_is_no_uio_leaves_polling(accelerator: Accelerator, how: str) -> None:
    """A device that has gone with its overlay would keep the thread awake for ever, or asleep."""
    ours, kernels = socket.socketpair()
    if how == "closed":
        kernels.close()
    else:
        ours.shutdown(socket.SHUT_WR)
    with ours, kernels:
        loop = opened(accelerator, os.dup(ours.fileno()))
        assert min(run_seconds(loop) for _ in range(4)) < LOOK_SECONDS
        loop.close()


def test_the_loop_closes_its_file(accelerator: Accelerator, uio: tuple[socket.socket, socket.socket]) -> None:
    """A process that opens and closes models would run out of files."""
    ours, kernels = uio
    loop = opened(accelerator, os.dup(ours.fileno()))
    ours.close()
    assert armed(kernels) == 0
    loop.close()
    assert kernels.recv(1) == b"", "the last descriptor is closed"
