"""Lanes that bring sums to int8: DSP48E2 products, rounding, requantisation, and the credit that keeps room behind them.

`array` and `vector` import it; it imports `hw.base`.
Begin with `requant`, with docs/numerics.md beside it.
"""
