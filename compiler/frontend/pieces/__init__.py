"""Which part of a model runs where: what the accelerator supports, what the CPU takes, and the pieces that follow from both.

`quantised_import`, `compile`, `explain` and `quantise` import it; it imports `onnx_export` and `onnx_model`.
Begin with `partition`.
"""
