"""From an ONNX model to a register program and the artifact around it; `compile` alone stands here and calls the rooms.

It imports `cnna.spec`, never the accelerator, the simulation or the host.
Begin with `compile`, then follow a model: `frontend`, `passes`, `lower`, `choose`, `plan`, `predict`.
"""
