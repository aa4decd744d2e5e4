"""Moves operators that only rearrange elements to where a layer absorbs them, or turns them into layers.

`pipeline` imports it; it imports `canonical`, `fusion` and `compiler.graph`.
Begin with `sink_views`.
"""
