"""Quick estimates of clocks, by which the compiler chooses among plans. `predict` is the exact model.

`plan`, `predict` and `report` import it; it imports `lower`.
Begin with `cost`; docs/decisions says why there are two models.
"""
