"""What is done to an ONNX model before it becomes a graph: checks, sizes, and rewrites into forms that all later steps know.

`onnx_import` and `source_model` call most of it; it imports no other folder of `frontend`.
Begin with `model_checks`.
"""
