"""Boards of several hosts behind one address, by Ray Serve (docs/cluster.md). Boards never import it.

Each board has a replica with an engine of its own; `front` asks them, and asks another one where a replica or a host dies. Only
`ray_app`, `front` and `replica` touch Ray, inside functions. Begin with `__main__`, which is `python -m cnna.serve.ray`.
"""
