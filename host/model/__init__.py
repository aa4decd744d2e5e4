"""Models that answer: floats in, floats out, on a board or on a simulated device.

Users and the command line import it; it imports `device` and `board`, and opens simulated devices by name.
Begin with `model`, then `board_model`, which runs on a PYNQ board.
"""
