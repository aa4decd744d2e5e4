"""Finds the heads of a detector in a compiled model, by structure (docs/detectors.md).

The command line imports it; it reads artifacts and runs their last piece on the CPU. Begin with `find`.
"""
