"""Places, tiles, commands, waits and the program: everything between kernels and bytes.

`compile` and `explore` import it; it imports `lower` and `cost`.
Begin with `plan`, then `allocate`, `tile` and `schedule`.
"""
