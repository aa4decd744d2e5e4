"""ONNX's operators, in all their spellings, as the typed operators of the float graph.

`pipeline` and `views` import it; it imports `fusion` and `compiler.graph`.
Begin with `typed_operators`.
"""
