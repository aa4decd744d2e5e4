"""Rewrites of graphs. Each is a function from graph to graph in a file of its own; `pipeline` orders them.

`canonical` gives operators their typed form. `fusion` joins an operator with its neighbour. `views` moves Reshape and Transpose.
`rounding` reads QuantizeLinear and DequantizeLinear (Q and DQ).
`frontend` and `quantise` run the passes. They import only `compiler.graph`, and each other as `tests/test_layering.py` allows.
Begin with `pipeline`.
"""
