"""Reads the Q and DQ nodes of a quantised model: joins them into pairs and notes the quantisation of each tensor.

`pipeline` and `canonical` import it; it imports `fold_constants` and `compiler.graph`.
Begin with `pair_quantisation`.
"""
