"""Turns kernels into a register program: places for maps, tiles, commands and waits.

`compile` and `explore` import it; it imports `lower` and `cost`.
Begin with `plan`, then `allocate`, `tile` and `schedule`.
"""
