"""Graph rewrites, one a file, each a function from graph to graph; `pipeline` orders them.

`canonical` gives operators their typed form, `fusion` joins neighbours, `views` moves Reshape and Transpose,
`rounding` reads Q and DQ.
`frontend` and `quantise` run them; they import `compiler.graph` alone.
Begin with `pipeline`.
"""
