"""Requests on their way: their queues, the batches or steps of pipelines that answer them, and what is counted of them.

The engine imports it, and fronts and traces for what a request has. No board is known here, and no life of a version. Begin with
`request`; `open_requests` has their ends, `cover` the batcher's arithmetic.
"""
