"""`cnna explore`: which configuration, and which tiling of a layer, is the quickest within a chip.

The command line imports it; it imports `compile`, `plan` and `report`.
Begin with `explore`.
"""
