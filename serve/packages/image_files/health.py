"""Whether the server in this container is ready: exit code 0, or 1. It asks the protocol's own route, which is open to all."""

import sys
import urllib.request

URL, SECONDS = "http://127.0.0.1:8000/v2/health/ready", 4


def ready() -> bool:
    """Whether it answers that it is."""
    try:
        with urllib.request.urlopen(URL, timeout=SECONDS) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(not ready())
