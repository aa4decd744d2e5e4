"""Boards: what answers batches. Each has a worker process of its own, and payloads pass through shared memory.

The engine imports it. The front never imports a device's packages: only a worker does. Begin with `process`, the front's side of a
worker, of which `loaded` knows what it has and `watch` whether it hangs; `worker` is the other side.
"""
