"""ONNX in and out: reads models, splits them between accelerator and CPU, makes the int8 graph of a quantised one.

`onnx_model` prepares the ONNX model, `batch` follows the batch through its graph, `pieces` decides what runs where.
`quantise`, `compile` and the reference import them; they import `graph` and `passes`.
Begin with `source_model`, what every step takes; then `onnx_import`, which makes it, and `quantised_import`.
"""
