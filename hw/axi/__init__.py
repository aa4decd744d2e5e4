"""The buses: AXI4, AXI4-Lite and AXI4-Stream as signatures, and the masters and the slave that speak them.

`dma`, `weights`, `control` and `top` import it; it imports `hw.base`.
Begin with `buses`, then `read_master`.
"""
