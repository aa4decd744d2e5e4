"""From an ONNX model to a register program and the artifact around it; `compile` stands here and calls the rooms.

`placements` stands beside it, for `explore`, which compiles one model for many configurations.
It imports `cnna.spec`, never the accelerator, the simulation or the host.
Begin with `compile`, then follow a model: `frontend`, `passes`, `lower`, `choose`, `plan`, `predict`.
"""
