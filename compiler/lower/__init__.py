"""From the int8 graph to kernels: which engine runs each node, on which part of which map, with which parameters.

`cost`, `plan` and `predict` read its kernels and layouts; it imports `graph`.
Begin with `kernels` (what comes out), then `lower`.
"""
