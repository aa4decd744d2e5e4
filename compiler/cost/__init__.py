"""Estimates of clocks that are quick enough to choose by; `predict` is the exact model.

`plan`, `predict` and `report` import it; it imports `lower`.
Begin with `cost`; docs/decisions says why there are two models.
"""
