"""Makes a worker process die of one version. The soak copies this file as `sitecustomize.py`, which Python runs at its start.

The worker dies with the version's first batch behind the golden answers, as of a model that hangs the accelerator for some inputs.
"""

import os
import signal
from collections import Counter
from unittest.mock import patch

from cnna.host.model.detector import Settings
from cnna.serve.boards.runner import FaultyRunner
from cnna.serve.models.signature import Arrays

GOLDEN = 4  # samples that a version is tried with before it serves
SICK = 1000  # the version
batches: Counter[str] = Counter()


def install() -> None:
    """Lets each worker of this process count its batches, and end by a signal as said above."""
    healthy = FaultyRunner.run

    def run(self: FaultyRunner, key: str, inputs: Arrays, received: float, *wanted: Settings) -> Arrays:
        batches[key] += 1
        if key.startswith(f"digits/{SICK}/") and batches[key] > -(-GOLDEN // int(key.rpartition("-b")[2])):
            os.kill(os.getpid(), signal.SIGKILL)
        return healthy(self, key, inputs, received, *wanted)

    patch.object(FaultyRunner, "run", run).start()  # to the end of the process


if __name__ == "sitecustomize":
    install()
