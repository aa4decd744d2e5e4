"""The Open Inference Protocol, version 2, without a transport: types, raw tensors, and what the server says of itself.

The fronts import it. Begin with `tensors`, then `described`.
"""
