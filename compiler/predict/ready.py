"""What the processes of `event_loop` wait for: a clock, or something that says at which clock it comes.

Each kind of wait is a small class rather than a function, because the machine code of `machine_code` calls a method in a tenth of
the time, and a network is some hundred thousand such calls.
"""

from abc import ABC, abstractmethod


class Ready(ABC):
    """Something that a process waits for."""

    @abstractmethod
    def clock(self, now: float) -> float:
        """The clock at which the process can continue, as far as it is known; inf: it waits for another process."""


class Lasting(Ready):
    """A wait whose answer depends on nothing that changes while processes are quiet (`EventLoop.quiet`).

    An answer below inf is final.
    """
