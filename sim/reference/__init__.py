"""The integer reference: the int8 graph of a model, layer by layer, in numpy.

`check`, `jobs` and the host's models (by name) import it; it imports `compiler.graph` and `compiler.frontend`.
Begin with `reference`.
"""
