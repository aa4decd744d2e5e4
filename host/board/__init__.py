"""Access to a PYNQ board, real or virtual: registers, memory, the turn to use it, and the overlay.

`model`, `selftest` and the command line import it; it imports `cnna.spec` and `host/native`. pynq is imported inside functions.
Begin with `board_device`.
"""
