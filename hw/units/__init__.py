"""How engines wait for each other: counts of finished units, and the gate that holds an engine's reads until its waits are met.

The engines import it; it imports `hw.base`.
Everything is in `waits`.
"""
