"""`/metrics`, as Prometheus reads it: what the engine has counted, collected when it is asked for.

A version has three histograms of many series each. So one that takes no requests any more shows them for a while, in which
Prometheus reads its last answers, and then no more; a server that gets a new version every day does not grow.
"""

import time
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.utils import floatToGoString

from cnna.serve.engine.core import Core
from cnna.serve.engine.served import READY, UNLOADING, Served
from cnna.serve.requests.stats import BOUNDS, Histogram, Stats

LABELS = ("model", "version")
KEPT_SECONDS = 600  # after its last answer, a version that takes no requests shows its histograms so long
EDGES = (*map(floatToGoString, BOUNDS), "+Inf")
HISTOGRAMS: dict[str, tuple[str, Callable[[Stats], Histogram]]] = {
    "cnna_request_duration_seconds": ("from admission to the answer, of requests that were answered", lambda stats: stats.totals),
    "cnna_queue_duration_seconds": ("from admission to the first batch, of these", lambda stats: stats.waits),
    "cnna_run_duration_seconds": ("that boards worked on their batches, of these", lambda stats: stats.runs),
}


class Collector:
    """Reads an engine's counts."""

    def __init__(self, core: Core) -> None:
        self.core = core

    def collect(self) -> Iterable[Metric]:
        """All metrics."""
        yield from self._versions(list(self.core.catalogue.served()))
        yield from self._histograms(time.time())
        yield from self._boards()

    def _versions(self, served: list[Served]) -> Iterator[Metric]:
        counted = {
            "cnna_requests_succeeded": ("requests that were answered", lambda one: one.stats.succeeded),
            "cnna_samples": ("samples of these", lambda one: one.stats.samples),
            "cnna_batches": ("batches that boards have run", lambda one: one.stats.batches),
            "cnna_retries": ("batches that went to another board", lambda one: one.stats.retries),
            "cnna_wait_seconds": ("from admission to the first batch, over requests", lambda one: one.stats.waits.seconds),
            "cnna_request_seconds": ("from admission to the answer, over requests", lambda one: one.stats.totals.seconds),
            "cnna_scale_seconds": ("that pictures took to be read and scaled, over requests", lambda one: one.stats.scale_seconds),
            "cnna_run_seconds": ("that boards worked, over batches", lambda one: one.stats.batch_seconds),
            "cnna_decode_seconds": ("of these, that boxes took behind a run", lambda one: one.stats.batch_decode_seconds),
            "cnna_clocks": ("predicted clocks of these batches", lambda one: one.stats.clocks),
        }
        for name, (text, value) in counted.items():
            counter = CounterMetricFamily(name, text, labels=LABELS)
            for one in served:
                counter.add_metric([one.model, one.name], value(one))
            yield counter
        failed = CounterMetricFamily("cnna_requests_failed", "requests that failed, by cause", labels=(*LABELS, "cause"))
        others = CounterMetricFamily("cnna_requests_fallback", "requests that a fallback answered", labels=(*LABELS, "runtime"))
        sizes = CounterMetricFamily("cnna_batch_samples", "batches by the samples in them", labels=(*LABELS, "samples"))
        queue = GaugeMetricFamily("cnna_queue_samples", "samples that wait", labels=LABELS)
        ready = GaugeMetricFamily("cnna_version_ready", "1: the version takes requests", labels=LABELS)
        for one in served:
            names = [one.model, one.name]
            for cause, count in one.stats.failed.items():
                failed.add_metric([*names, cause], count)
            for runtime, count in one.stats.fallbacks.items():
                others.add_metric([*names, runtime], count)
            for size, count in one.stats.batch_sizes.items():
                sizes.add_metric([*names, str(size)], count)
            queue.add_metric(names, one.pending.samples)
            ready.add_metric(names, float(one.state == READY))
        yield from (failed, others, sizes, queue, ready)

    def _histograms(self, now: float) -> Iterator[Metric]:
        shown = [
            one for one in self.core.catalogue.served() if one.state in (READY, UNLOADING) or now - one.stats.last < KEPT_SECONDS
        ]
        for name, (text, of) in HISTOGRAMS.items():
            histogram = HistogramMetricFamily(name, text, labels=LABELS)
            for one in shown:
                found = of(one.stats)
                histogram.add_metric([one.model, one.name], list(zip(EDGES, found.within(), strict=True)), found.seconds)
            yield histogram

    def _boards(self) -> Iterator[Metric]:
        ready = GaugeMetricFamily("cnna_board_ready", "1: the board takes batches", labels=("board",))
        outstanding = GaugeMetricFamily("cnna_board_outstanding_seconds", "that its batches will take", labels=("board",))
        batches = CounterMetricFamily("cnna_board_batches", "batches that it has answered", labels=("board",))
        watts = GaugeMetricFamily("cnna_board_power_watts", "that the board draws, where it has sensors", labels=("board",))
        celsius = GaugeMetricFamily("cnna_board_temperature_celsius", "of its chip, where it has sensors", labels=("board",))
        resets = CounterMetricFamily("cnna_board_resets", "how often it was started again", labels=("board",))
        for board in self.core.boards:
            names = [board.spec.name]
            ready.add_metric(names, float(board.state == "ready"))
            outstanding.add_metric(names, board.seconds * board.ratio)
            batches.add_metric(names, board.life.batches)
            resets.add_metric(names, board.life.resets)
            for gauge, value in ((watts, board.watts), (celsius, board.celsius)):
                if value is not None:
                    gauge.add_metric(names, value)
        yield from (ready, outstanding, batches, resets, watts, celsius)


def metrics(core: Core) -> tuple[bytes, str]:
    """The text, and its media type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector(core))
    return generate_latest(registry), CONTENT_TYPE_LATEST
