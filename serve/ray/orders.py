"""What operators asked of all replicas, and what each replica says of itself. Ray runs `Orders` as an actor.

Replicas ask every `PERIOD_SECONDS`. A replica that begins later carries out the orders of before, too. If the actor is
lost, the replicas bring back what they know.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

PERIOD_SECONDS = 0.5
COUNTS_SECONDS = 2.0  # between two reports of what a replica has counted
SILENT_SECONDS = 10.0  # after which a replica counts as gone
LOAD, UNLOAD = "load", "unload"


@dataclass(frozen=True)
class Order:
    """To load or unload a model. number: later orders have greater ones."""

    number: int
    what: str
    model: str


@dataclass(frozen=True)
class Report:
    """What a replica says. done: all orders up to this number are carried out. refusals: what was wrong with some, by number.

    models: what is ready, as MODEL/VERSION and a hash of its files. boards: as of `/v2/boards`.
    """

    replica: str
    host: str
    version: str
    pid: int = 0
    done: int = 0
    refusals: Mapping[int, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    orders: tuple[Order, ...] = ()
    boards: tuple[Mapping[str, Any], ...] = ()


class Orders:
    """The last order for each model, and the last report of each replica."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._orders: dict[str, Order] = {}
        self._reports: dict[str, tuple[float, Report]] = {}  # the longest known one first
        self._counts: dict[str, str] = {}

    def order(self, what: str, model: str) -> int:
        """Asks all replicas for it; returns the order's number."""
        number = self._last() + 1
        self._orders[model] = Order(number, what, model)
        return number

    def exchange(self, report: Report) -> tuple[tuple[Order, ...], str | None]:
        """Takes a report. Returns the orders, and why this replica must not answer requests; None: it may."""
        for order in report.orders:
            known = self._orders.get(order.model)
            if known is None or known.number < order.number:
                self._orders[order.model] = order
        self._reports[report.replica] = (self._clock(), report)
        orders = tuple(sorted(self._orders.values(), key=lambda order: order.number))
        first = next((one for one in self.reports() if one.done == report.done), report)
        return orders, difference(first, report)

    def reports(self) -> list[Report]:
        """Those of replicas that were heard of lately; others are forgotten."""
        least = self._clock() - SILENT_SECONDS
        self._reports = {name: found for name, found in self._reports.items() if found[0] >= least}
        return [report for _, report in self._reports.values()]

    def counted(self, replica: str, text: str) -> None:
        """Takes what a replica has counted, as Prometheus reads it."""
        self._counts[replica] = text

    def counts(self) -> dict[str, str]:
        """The last counts of the replicas that are there, by their hosts and boards."""
        reports = self.reports()
        there = {report.replica for report in reports}
        self._counts = {name: text for name, text in self._counts.items() if name in there}
        return {report.host: self._counts[report.replica] for report in reports if report.replica in self._counts}

    def outcome(self, number: int) -> list[str] | None:
        """What replicas refused of an order, a line each; None: some have not carried it out yet."""
        reports = self.reports()
        if not reports or any(report.done < number for report in reports):
            return None
        return sorted({report.refusals[number] for report in reports if number in report.refusals})

    def _last(self) -> int:
        return max((order.number for order in self._orders.values()), default=0)


def difference(first: Report, other: Report) -> str | None:
    """What two replicas must have in common and have not, in one line with a remedy; None: they agree."""
    if first.version != other.version:
        return (
            f"cnna differs between hosts: {first.version} on {first.host}, {other.version} on {other.host}; "
            "install the same one on all"
        )
    for name in sorted({*first.models, *other.models}):
        one, two = first.models.get(name), other.models.get(name)
        model, _, version = name.rpartition("/")
        if one != two:
            lacking = other.host if two is None else first.host
            how = "has other files" if one and two else f"is not ready on {lacking}"
            return (
                f"model {model}, version {version} differs between hosts {first.host} and {other.host}: it {how}; "
                "copy one repository to both, and load the model again"
            )
    return None
