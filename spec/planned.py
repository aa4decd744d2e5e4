"""The DDR that clocks are predicted for: what the compiler plans with, and what is behind each variant of the board.

Read on boards, and by whoever simulates or predicts.
"""

from typing import NamedTuple

from cnna.spec.config import BEAT_BYTES, Config


class DdrSpeed(NamedTuple):
    """bytes_per_cycle: of all AXI ports together, reads and writes. latency_cycles: from a read address to its first beat."""

    bytes_per_cycle: int = 48
    latency_cycles: int = 120

    def times_slower(self, other: "DdrSpeed", config: Config) -> float:
        """How many times longer at most a run takes with this one than with the `other`; 1 where this one is no slower.

        Bytes take longer by the rates' ratio, of which ports of `config` use no more than a beat a clock each; answers take
        longer by the latencies' ratio; the engines themselves take no longer.
        """
        most = BEAT_BYTES * config.ports
        rate = min(other.bytes_per_cycle, most) / min(self.bytes_per_cycle, most)
        return max(1.0, rate, self.latency_cycles / other.latency_cycles)

    def __str__(self) -> str:
        return f"a DDR of {self.bytes_per_cycle} bytes a clock that answers after {self.latency_cycles} clocks"

    def entry(self) -> dict[str, int]:
        """As `ddr` in a manifest and in the figures of runs and reports."""
        return self._asdict()


PLANNED = DdrSpeed()  # the PS's DDR4 of a ZCU102
PL = DdrSpeed(bytes_per_cycle=15)  # the PL's: 16 bit wide, at 300 MHz


def ddr_of(config: Config) -> DdrSpeed:
    """What an accelerator of this configuration works on."""
    return PL if config.streams else PLANNED
