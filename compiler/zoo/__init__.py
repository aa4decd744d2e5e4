"""Models to try: the project's own trained one, and graphs of well-known networks.

The command line and the tools import it; it imports `cnna.spec` alone.
Begin with `catalogue`.
"""
