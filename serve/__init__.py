"""The serving engine: answers requests for models, from several boards at once (docs/serving.md).

The command line imports it, and programs that want `Engine` in their own process. `models` reads repositories, `boards` has one
worker process for each board, `engine` queues, batches and dispatches. Begin with `engine/core.py`.
"""

from cnna.serve.engine.engine import Engine

__all__ = ["Engine"]
