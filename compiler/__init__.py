"""From an ONNX model to a register program."""
