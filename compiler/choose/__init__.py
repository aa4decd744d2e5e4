"""Chooses one plan of a program: which plans are tried, in which order, by which cost, and which one is taken.

`compile` and `explore` import it; it imports `plan`, which plans one way, and `predict`, `cost` and `lower`.
Begin with `choose`, then `search` and `mixed`.
"""
