"""The graphs that passes rewrite: the int8 graph, the operators of the float graph, and the editor that changes both.

Every room of the compiler may import it; it imports only `cnna.spec`.
Begin with `ir`.
"""
