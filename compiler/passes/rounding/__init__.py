"""Q and DQ of models that came quantised: brought into pairs, and made the quantisation of tensors.

`pipeline` imports it; it imports `compiler.graph` alone.
Begin with `pair_quantisation`.
"""
