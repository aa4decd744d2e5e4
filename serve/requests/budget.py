"""How many bytes of requests the front keeps at once, over all connections: a bounded queue bounds samples, not memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cnna.spec.errors import BusyError

MOST_BYTES = 1 << 30


class RequestBytes:
    """Bytes that are taken when they come, and given back when their request has ended."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.most, self.used = most, 0

    @contextmanager
    def request(self) -> Iterator[Callable[[int], None]]:
        """A request; call what it gives with the bytes of each part. BusyError: all requests together would have too many."""
        own = 0

        def take(count: int) -> None:
            nonlocal own
            if self.used + count > self.most:
                raise BusyError(f"requests of {self.used:,} bytes are open, and the server keeps {self.most:,} at most", full=True)
            self.used += count
            own += count

        try:
            yield take
        finally:
            self.used -= own
