"""The log: one JSON object a line on standard error, with the time, what happened, and to whom. Never a tensor."""

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from cnna.spec.json_text import json_text


def json_log(stream: TextIO | None = None) -> Callable[..., None]:
    """A log for `Core`: called with level, event, and what else is known (request_id, model, version, board, cause)."""

    def log(level: str, event: str, **more: Any) -> None:
        known = {key: value for key, value in more.items() if value not in ("", None)}
        print(
            json_text({"ts": round(time.time(), 6), "level": level, "event": event, **known}),
            file=stream or sys.stderr,
            flush=True,
        )

    return log
