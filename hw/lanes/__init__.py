"""Lanes that turn sums into int8: DSP48E2 products, rounding, requantisation, their parameters and tables, credit for results.

`array` and `vector` import it; it imports `hw.base`.
Begin with `requant`, with docs/numerics.md beside it.
"""
