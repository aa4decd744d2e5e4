"""Feature memory: banks of block RAM behind seven ports that share them.

`top` imports it; it imports `hw.base` and `hw.walk`.
Begin with `feature_memory`, then `request_splitter` and `bank_slots`.
"""
