"""ONNX in and out: reads models, splits them between accelerator and CPU, makes the int8 graph of a quantised one.

`quantise`, `compile` and the reference import it; it imports `graph` and `passes`.
Begin with `onnx_import`, then `quantised_import`.
"""
