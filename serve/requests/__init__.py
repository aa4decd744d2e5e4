"""Requests on their way: their queues, the batches that are made of them, and what is counted of them. No board is known here.

The engine imports it, and fronts and traces for what a request has. Begin with `request`; `cover` is the batcher's arithmetic.
"""
