"""The weight engine and the two rings that it fills ahead of use.

`array` and `vector` read rings through `cursor`; this room imports `hw.dma` and `hw.axi`.
Begin with `weights`.
"""
