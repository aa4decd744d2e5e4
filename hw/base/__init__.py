"""Small blocks that every engine is made of (FIFOs, counts, delays, slices of wide values), and the interfaces between blocks.

Every room of `hw` may import it; it imports `cnna.spec` alone.
Begin with `ports`, the signatures that travel between modules.
"""
