"""`cnna explore`: the quickest configuration within a chip, and the quickest tiling of a layer.

`jobs` imports it; it imports `compile`, `choose`, `plan` and `report`.
Begin with `explore`.
"""
