"""Where the batch lies in each tensor of a float graph.

`onnx_import`, `source_model` and `quantised_import` import it; it imports `onnx_model`.
Begin with `batch_axis`.
"""
