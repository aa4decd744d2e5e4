"""Asks replicas until one answers. A request for an answer changes nothing, so it may be asked again. It knows nothing of Ray.

A request is asked again if the replica is lost, if it is silent for too long, or if it answers 503 with `retry-after`: another
one may do better. A request that loses many replicas is refused: it may be what kills them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from cnna.spec.errors import BusyError, RunError

AGAIN = "retry-after"
MOST_LOST = 8  # replicas that one request may lose


@dataclass(frozen=True)
class Asked:
    """A request over HTTP, whole. target: the path and the query, as the client sent them."""

    method: str
    target: str
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""


@dataclass(frozen=True)
class Answered:
    """An answer over HTTP, whole."""

    code: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def elsewhere(self) -> bool:
        """Whether another replica may answer better."""
        return self.code == 503 and AGAIN in self.headers


@dataclass(frozen=True)
class Patience:
    """seconds: for a request as a whole. silent_seconds: for one try. busy_seconds: of asking again after a 503."""

    seconds: float = 120.0
    silent_seconds: float = 30.0
    busy_seconds: float = 20.0
    pause_seconds: float = 0.05


async def asked_until_answered(
    ask: Callable[[], Awaitable[Answered]],
    lost: Callable[[Exception], bool],
    patience: Patience,
    note: Callable[[str], None] = lambda cause: None,
) -> Answered:
    """The answer. lost: whether an error says that the replica is gone or cannot be asked, and not that the request is wrong.

    note: is told why the request is asked again. RunError: it lost too many replicas. BusyError: nobody answered in time.
    """
    loop = asyncio.get_running_loop()
    began, many, cause = loop.time(), 0, "no replica is ready"
    while (left := began + patience.seconds - loop.time()) > 0:
        try:
            answer = await asyncio.wait_for(ask(), min(left, patience.silent_seconds))
            if not answer.elsewhere or loop.time() - began > patience.busy_seconds:
                return answer
            cause = answer.body.decode(errors="replace")[:200]
        except (asyncio.TimeoutError, TimeoutError):
            cause = f"no answer within {patience.silent_seconds:g} s"
            note(cause)
        except Exception as error:
            if not lost(error):
                raise
            many, cause = many + 1, f"{type(error).__name__}"
            note(cause)
            if many >= MOST_LOST:
                raise RunError(f"the request lost {many} replicas, the last one by {cause}; it is not asked again") from None
        await asyncio.sleep(patience.pause_seconds)
    raise BusyError(f"no replica answered within {patience.seconds:g} s: {cause}")
