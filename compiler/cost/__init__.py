"""Quick estimates of clocks, with which the compiler compares plans. `predict` has the exact model.

`plan`, `choose`, `predict` and `report` import it; it imports `lower`.
Begin with `cost`. docs/decisions says why there are two models.
"""
