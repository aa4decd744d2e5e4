"""The jobs of the command line as functions for Python: `cnna.compile`, `cnna.explain` and the others (docs/python.md).

One file a job. A function takes values, paths and callbacks, gives a frozen dataclass, prints nothing, and raises the errors of
`spec/errors.py`. `cli` parses options, calls these, and prints what they give; `cnna` itself shows them lazily. The compiler and
the simulation are imported inside functions. Begin with `given.py` and `result.py`, then `compile.py`.
"""
