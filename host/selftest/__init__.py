"""The self-test of a board: is the accelerator sound, and how fast is it? It brings its own network.

The command line imports it; it imports `board` and `model`.
Begin with `selftest`.
"""
