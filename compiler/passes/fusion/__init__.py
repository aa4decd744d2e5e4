"""Merges operators into the operator beside them: limits, padding, affine layers, residual sums, requantisation.

`pipeline`, `canonical` and `views` import it; it imports only `compiler.graph`.
Begin with `fuse_affine`.
"""
