"""Feature memory: banks of block RAM behind seven ports that share them.

`dma` and `top` import it; it imports `hw.base` and `hw.walk`.
Begin with `feature_memory`, then `bank_front` and `bank_port`.
"""
