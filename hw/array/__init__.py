"""The convolution engine: the array of DSP48E2s, what feeds it and what takes its sums.

`top` imports it; it imports `walk`, `weights`, `lanes`, `units` and `base`.
Begin with `conv`, which connects the parts.
"""
