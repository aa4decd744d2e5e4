"""Makes a register program of kernels: places for maps, tiles, commands and waits.

`compile` and `explore` import it; it imports `lower` and `cost`.
Begin with `plan`, then `allocate`, `tile` and `schedule`.
"""
