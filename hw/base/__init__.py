"""Small blocks and interfaces that every engine is made of: queues, skid buffers, FIFOs, counters, delays, port signatures.

Every room of `hw` may import it; it imports `cnna.spec` alone.
Begin with `ports`, the signatures that travel between blocks.
"""
