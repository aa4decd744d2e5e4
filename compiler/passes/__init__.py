"""Graph rewrites, one a file, each a function from graph to graph; `pipeline` orders them.

`frontend` and `quantise` run them; they import `compiler.graph` alone.
Begin with `pipeline`.
"""
