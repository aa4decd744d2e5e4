"""ONNX in and out: reads models, splits them between accelerator and CPU, makes the int8 graph of a quantised one.

`onnx_model` prepares the ONNX model, `batch` follows the batch through its graph, `pieces` decides what runs where.
`quantise`, `compile` and the reference import them; they import `graph` and `passes`.
Begin with `onnx_import`, then `quantised_import`.
"""
