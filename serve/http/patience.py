"""Limits for connections, and for how long a request may come: one that never ends would keep a socket, and memory, for ever."""

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from cnna.serve.fronts.listening import MOST_CONNECTIONS

HEAD_SECONDS = 10.0  # from the connection, or the first byte of a later head, to the end of the head
BODY_SECONDS = 60.0  # from the head to the end of the body


class PatientProtocol(H11Protocol):
    """uvicorn's, with a limit for heads and bodies. Between two requests uvicorn's own limit for idle connections holds."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._reads: str | None = None  # what is not there yet: head, body; None: the request is answered
        self._limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            self._refuse("503 Service Unavailable", f"{MOST_CONNECTIONS:,} connections are open; try again")
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop()

    def _watch(self) -> None:
        """Begins a limit when something else is read than before; a byte now and then does not renew it."""
        answered = self.cycle is None or self.cycle.response_complete
        reads = "head" if answered else "body" if self.cycle.more_body else None
        if reads != self._reads:
            self._stop()
            self._reads = reads
            if reads is not None:
                self._limit = self.loop.call_later(HEAD_SECONDS if reads == "head" else BODY_SECONDS, self._late)

    def _stop(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
        self._limit = None

    def _late(self) -> None:
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            seconds = HEAD_SECONDS if self._reads == "head" else BODY_SECONDS
            self._refuse("408 Request Timeout", f"the {self._reads} of the request did not end within {seconds:g} s")
        self.transport.close()

    def _refuse(self, status: str, said: str) -> None:
        """Answers in the place of the application, and closes."""
        body = json.dumps({"error": said}).encode()
        head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nretry-after: 1\r\n"
        self.transport.write(f"{head}connection: close\r\n\r\n".encode() + body)
        self.transport.close()
