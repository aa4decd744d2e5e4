"""Operators that go into the operator beside them: limits, padding, affine layers, residual sums, requantisation.

`pipeline`, `canonical` and `views` import it; it imports `compiler.graph` alone.
Begin with `fuse_affine`.
"""
