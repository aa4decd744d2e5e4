"""What a booted system asks of the service that was installed in it. It runs there, with Python's standard library alone.

Standard output is JSON: what is true of it.
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from typing import Any

URL, SECONDS = "http://127.0.0.1:8000/v2", 120


def said(*words: str) -> str:
    """What a program prints."""
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def asked(path: str, body: dict[str, Any] | None = None) -> Any:
    """The server's answer; None: there is none."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(URL + path, data), timeout=10) as answer:
            return json.load(answer)
    except OSError:
        return None


def ready() -> bool:
    """Whether the server becomes ready."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        if asked("/health/ready"):
            return True
        time.sleep(0.2)
    return False


def infer() -> Any:
    """Logits of an empty picture."""
    image = {"name": "image", "datatype": "FP32", "shape": [1, 1, 16, 16], "data": [0.0] * 256}
    answer = asked("/models/digits/infer", {"inputs": [image]})
    return answer and answer["outputs"][0]["data"]


def main() -> None:
    """Looks at it, kills it, looks again, ends it. Exit code 1: it does not become ready; the journal says why."""
    found: dict[str, Any] = {"ready": ready(), "logits": infer()}
    if not found["ready"]:
        sys.exit(said("journalctl", "-u", "cnna", "-o", "cat", "--no-pager"))
    shown = said("systemctl", "show", "cnna", "-p", "MainPID")
    main_process = dict(line.split("=", 1) for line in shown.splitlines())["MainPID"]
    found["user"] = said("stat", "-c", "%u", f"/proc/{main_process}")
    found["security"] = said("systemd-analyze", "security", "cnna.service", "--no-pager").splitlines()[-1]
    os.kill(int(main_process), signal.SIGKILL)
    time.sleep(1)
    found["ready again"], found["logits again"] = ready(), infer()
    found["restarts"] = said("systemctl", "show", "cnna", "-p", "NRestarts", "--value")
    subprocess.run(["systemctl", "stop", "cnna"], check=True)
    found["result"] = said("systemctl", "show", "cnna", "-p", "Result", "--value")
    found["journal"] = said("journalctl", "-u", "cnna", "-o", "cat", "--no-pager")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
