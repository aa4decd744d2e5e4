"""What LoadGen asks: its scenarios, the settings of one run, and the figure that each scenario is about."""

from dataclasses import dataclass
from typing import NamedTuple

SINGLE, MULTI, OFFLINE, SERVER, ACCURACY = SCENARIOS = ("SingleStream", "MultiStream", "Offline", "Server", "AccuracyOnly")
CLOSED = (SINGLE, MULTI)  # the next query comes when the one before it is answered


class Figure(NamedTuple):
    """A figure of LoadGen's detailed log. key: there. unit: as shown. factor: to that unit. higher: whether more is better."""

    key: str
    unit: str
    factor: float
    higher: bool


FIGURES = {
    SINGLE: Figure("result_90.00_percentile_latency_ns", "ms, 90 %", 1e-6, False),
    MULTI: Figure("result_99.00_percentile_per_query_latency_ns", "ms, 99 %", 1e-6, False),
    OFFLINE: Figure("result_samples_per_second", "samples/s", 1.0, True),
    SERVER: Figure("result_99.00_percentile_latency_ns", "ms, 99 %", 1e-6, False),
}


@dataclass(frozen=True)
class Load:
    """One run of LoadGen. seconds: the least that it lasts, queries: the fewest. seed: of the order of samples and of arrivals.

    samples: that there are. qps, latency_seconds: of Server, the queries a second and how late 99 % of the answers may be;
    None: a share of what the device can do. together: samples in a query of MultiStream.
    """

    scenario: str
    seconds: float = 10.0
    queries: int = 100
    seed: int = 0
    samples: int = 64
    qps: float | None = None
    latency_seconds: float = 0.1
    together: int = 8


SERVER_SHARE = 0.8  # of what the device can do: the queries a second of Server where none are given
