"""The graphs that passes rewrite: the int8 graph, the float graph's operators, and the editor that changes both.

Every room of the compiler may import it; it imports `cnna.spec` alone.
Begin with `ir`.
"""
