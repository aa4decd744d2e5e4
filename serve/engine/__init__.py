"""The engine: admits requests, batches their samples, sends batches to boards, and keeps versions and boards in order.

`Core` belongs to one asyncio loop, which the fronts share; `serve.in_process` is the same for programs without one. Begin with
`core`.
"""
