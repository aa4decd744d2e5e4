"""Is the accelerator on this board well, and how quick? A self-test with a network of its own.

The command line imports it; it imports `board` and `model`.
Begin with `selftest`.
"""
