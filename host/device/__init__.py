"""The driver of one accelerator, whatever device it is on.

`model` imports it; it imports `cnna.spec` alone.
Begin with `accelerator`.
"""
