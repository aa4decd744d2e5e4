"""How patient the engine is with boards."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """hang: a batch may take at least so long, and at least so many times the warm-up. load: so long without a sign of life, such
    as that of a simulator that is being built. pause: after the first failure, and the longest. failures: with so many in a row,
    the board is out.
    """

    hang_seconds: float = 0.25
    hang_times: float = 20.0
    load_seconds: float = 120.0
    pause_seconds: tuple[float, float] = (1.0, 60.0)
    failures: int = 5
