"""`/metrics` of a cluster: what each replica has counted, with the label `host`, and what the front has counted itself."""

from collections import Counter
from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.parser import text_string_to_metric_families

HOST = "host"
MEDIA_TYPE = CONTENT_TYPE_LATEST


class _Merged:
    """What a registry collects."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """All metrics."""
        return self._families


def merged(texts: Mapping[str, str], codes: Mapping[int, int], again: int) -> bytes:
    """One text of many. texts: of replicas, by host and board. codes: the front's answers by their status.

    again: its tries beyond the first.
    """
    families: dict[str, Metric] = {}
    for host, text in sorted(texts.items()):
        for found in text_string_to_metric_families(text):
            family = families.setdefault(found.name, Metric(found.name, found.documentation, found.type))
            family.samples += [sample._replace(labels={HOST: host, **sample.labels}) for sample in found.samples]
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Merged([*families.values(), *_own(len(texts), codes, again)]))
    return generate_latest(registry)


def _own(boards: int, codes: Mapping[int, int], again: int) -> list[Metric]:
    answers = CounterMetricFamily("cnna_cluster_answers", "answers of replicas that clients got, by status", labels=("code",))
    for code, count in sorted(Counter(codes).items()):
        answers.add_metric([str(code)], count)
    return [
        GaugeMetricFamily("cnna_cluster_boards", "replicas whose counts are here", value=boards),
        answers,
        CounterMetricFamily("cnna_cluster_asked_again", "tries beyond the first, as a replica was lost or silent", value=again),
    ]
