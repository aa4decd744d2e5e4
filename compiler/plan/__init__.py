"""Turns kernels into a register program in one way: places for maps, tiles, commands and waits.

`choose`, `compile` and `explore` import it; it imports `lower` and `cost`. Which ways are tried is `choose`'s matter.
Begin with `plan`, then `allocate`, `tile` and `schedule`.
"""
