"""Copies between DDR and feature memory (load, store) and between DDR and the stream ports.

`weights` and `control` share its bursts, and `top` connects it; it imports `hw.base`, `hw.axi` and `hw.units`.
Begin with `runs`, which `load` and `store` share, then `bursts` and `segments`.
"""
