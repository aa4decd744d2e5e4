"""Calls an ASGI application without a network."""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What came back."""

    code: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def call(app: Any, method: str, path: str, body: bytes | object = b"", **headers: str) -> Answer:
    """One request. body: bytes, or what becomes JSON. Headers have `_` for `-`."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    pairs = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": pairs,
        "server": ("test", 80),
        "client": ("test", 1),
        "scheme": "http",
        "root_path": "",
    }
    parts = [data[start : start + 1000] for start in range(0, len(data), 1000)] or [b""]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    head = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], head, b"".join(message.get("body", b"") for message in sent[1:]))
