"""What the service says of errors that nobody waits for."""

import asyncio
from typing import Any

from cnna.serve.fronts.service import SAME_SECONDS, Unexpected


def test_what_nobody_waits_for_is_a_line_now_and_then() -> None:
    """Without a file left, asyncio says so 2,048 times a second, in tracebacks."""
    said, now, loop = list[Any](), 100.0, asyncio.new_event_loop()
    loop.set_exception_handler(Unexpected(lambda level, event, **more: said.append((level, event, more["cause"])), lambda: now))
    for _ in range(3):
        loop.call_exception_handler({"message": "accept()\n failed", "exception": OSError("no file left")})
    loop.call_exception_handler({"message": "a task was lost"})
    now += SAME_SECONDS
    loop.call_exception_handler({"message": "a task was lost"})
    loop.close()
    first = ("error", "internal error", "accept() failed: OSError: no file left")
    assert said == [first, *[("error", "internal error", "a task was lost")] * 2]
