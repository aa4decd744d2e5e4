"""The serving engine: answers requests for models, from several boards at once (docs/serving.md).

The command line imports it, and programs that want `Engine` in their own process. `models` reads repositories, `boards` has one
worker process for each board, `requests` queues and batches, `engine` decides and dispatches. Begin with `engine/core.py`.
"""

from cnna.serve.in_process import Engine

__all__ = ["Engine"]
