"""Requests on their way: their queues, the batches or steps of pipelines that answer them, and what is counted of them.

No board is known here, and no life of a version.

The engine imports it, and fronts and traces for what a request has. Begin with `request`; `open_requests` has their ends, `cover` the
batcher's arithmetic.
"""
