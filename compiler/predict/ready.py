"""What the processes of `event_loop` wait for: a clock, or something that says at which clock it comes.

Each kind of wait is a small class rather than a function, because the machine code of `machine_code` calls a method in a tenth of
the time, and a network is some hundred thousand such calls.
"""

from abc import ABC, abstractmethod
from math import inf


class Ready(ABC):
    """Something that a process waits for."""

    @abstractmethod
    def clock(self, now: float) -> float:
        """The clock at which the process can continue, as far as it is known; inf: it waits for another process."""


class Lasting(Ready):
    """A wait whose answer depends on nothing that changes while processes are quiet (`Steps`).

    An answer below inf is final.
    """


class Steps(Ready):
    """Several waits in a row, for the processes that are resumed most often: a generator's resumption takes ten times as long.

    Between its waits it is quiet: it changes only rings, flows and requests of weights. at: the clock of the present wait, if that
    is final; inf: `clock` says it.
    """

    def __init__(self) -> None:
        self.at = inf

    @abstractmethod
    def go_on(self, now: float) -> bool:
        """Goes on to the next wait. False: there is none, and the process goes on."""
