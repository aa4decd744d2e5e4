"""Turns ONNX's operators, with all their variants, into the typed operators of the float graph.

`pipeline` and `views` import it; it imports `fusion` and `compiler.graph`.
Begin with `typed_operators`.
"""
