"""The HTTP front: the protocol's JSON and binary tensors over Starlette and uvicorn (extra `serve`).

The command line imports it. Begin with `app`, the routes; `body` reads and writes tensors, `server` listens and ends in order.
"""
