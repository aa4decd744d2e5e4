"""The vector engine: pooling, depthwise convolution, additions and affine layers.

`top` imports it; it imports `walk`, `weights`, `lanes`, `units` and `base`.
Begin with `vector`, which connects the parts.
"""
