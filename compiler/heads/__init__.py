"""Finds the heads of a detector in a compiled model, by structure (docs/detectors.md).

`jobs` and `explain` import it; it reads artifacts and runs their last piece on the CPU. Begin with `find`.
"""
