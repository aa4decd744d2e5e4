"""Points of an exploration that were not compiled, for tables, plots and fronts."""

from cnna.compiler.explore.explore import Point
from cnna.spec.config import Config
from cnna.spec.host_time.end_to_end import EndToEnd
from cnna.spec.host_time.host_work import HostWork


def point(
    config: Config, batch: int, taken: tuple[int, float, int, int], cycles: int, macs: int, host_seconds: float = 0.0
) -> Point:
    """A point. taken: DSP48E2, BRAM36, URAM288 and LUTs. host_seconds: of a batch, on the CPU."""
    accelerator_seconds = cycles / (config.clock_mhz * 1e6)
    whole = EndToEnd(batch, accelerator_seconds, host_seconds, 2, 0, 1, HostWork(native=1), HostWork(native=1))
    return Point(config, batch, *taken, cycles, 5_000_000, macs, whole)
