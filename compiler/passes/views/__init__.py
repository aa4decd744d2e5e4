"""Operators that only arrange elements anew: moved to where a layer absorbs them, or made a layer of their own.

`pipeline` imports it; it imports `canonical`, `fusion` and `compiler.graph`.
Begin with `sink_views`.
"""
