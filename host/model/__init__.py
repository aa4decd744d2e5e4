"""Models that answer: floats in, floats out, on a board or on a simulated device.

Users and the command line import it; it imports `device` and `board`, and opens simulated devices by name. Begin with `session`,
which is `cnna.InferenceSession`, then `model` and `board_model`, which lie under it.
"""
