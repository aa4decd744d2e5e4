"""The part of the self-test that looks whether the accelerator's interrupt comes through the UIO device that was found for it."""

import os
import select

from cnna.host.board.board_device import BoardDevice
from cnna.host.selftest.selftest import Finding, Placed, copy_program
from cnna.spec.errors import RunError

NAME = "interrupt"
SECONDS = 1.0  # within which an interrupt comes, if it comes at all
ARM = (1).to_bytes(4, "little")  # what a UIO device is told to let the next interrupt through


def interrupt(board: BoardDevice) -> Finding:
    """Runs a program and waits for its interrupt. A board without a device for it is sound: the driver polls."""
    found = board.interrupt
    if (file := found.open()) < 0:
        return Finding(NAME, True, f"not tried: the driver waits {found}")
    try:
        program, size = copy_program(board)
        with board.turns.mine("self-test"), Placed(board, program, size) as placed:
            os.write(file, ARM)
            placed.start()
            came = bool(select.select([file], [], [], SECONDS)[0])
            placed.finish()
    except (RunError, OSError) as error:
        return Finding(NAME, False, str(error))
    finally:
        os.close(file)
    if came:
        return Finding(NAME, True, f"it comes through {found.path}")
    return Finding(NAME, False, f"none came through {found.path} within {SECONDS:g} s of a start; the driver polls instead")
