"""Reads the Q and DQ nodes of a quantised model: joins them into pairs and notes the quantisation of each tensor.

`pipeline` imports it; it imports only `compiler.graph`.
Begin with `pair_quantisation`.
"""
