"""The weight engine and the two rings that it fills ahead of use.

`array` and `vector` read the rings through `ring.RingCursor`; this room imports `hw.dma` and `hw.axi`.
Begin with `weights`.
"""
