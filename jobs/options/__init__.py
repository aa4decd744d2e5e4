"""What the arguments of a job may be, and what they stand for: values by kind, configurations, memories, metrics.

The rest of `jobs` and `cli` import it; it imports `spec`, and `sim.rtl` inside a function.
Begin with `arguments`.
"""
