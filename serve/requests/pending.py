"""The requests of one version that wait for a batch, in order of their priority and then of their arrival."""

from bisect import insort

from cnna.serve.requests.request import Request, SampleRange


class PendingRequests:
    """A queue of requests. A request stays until its last sample is in a batch, or it has ended for another reason."""

    def __init__(self) -> None:
        self._requests: list[Request] = []

    def add(self, request: Request) -> None:
        """Puts a request behind those that go first."""
        insort(self._requests, request, key=lambda one: one.order)

    @property
    def head(self) -> Request | None:
        """The request that goes first."""
        self._requests = [one for one in self._requests if one.left]
        return self._requests[0] if self._requests else None

    @property
    def samples(self) -> int:
        """All that wait."""
        return sum(one.left for one in self._requests)

    def alike(self) -> int:
        """Samples that may share a batch with the head's."""
        head = self.head
        return sum(one.left for one in self._requests if one.form == head.form) if head else 0

    def take(self, samples: int) -> list[SampleRange]:
        """The next samples that may share a batch, `samples` at most."""
        head, ranges = self.head, list[SampleRange]()
        for request in self._requests if head else ():
            if samples and head and request.form == head.form and request.left:
                ranges.append(request.take(samples))
                samples -= ranges[-1].count
        return ranges

    def oldest(self) -> float:
        """When the request that has waited longest, of those that may share a batch with the head, was admitted."""
        head = self.head
        return min(one.admitted for one in self._requests if head and one.form == head.form)
