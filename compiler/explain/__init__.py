"""Says what will happen to each node of a model, before anything is quantised or compiled for good.

`jobs` imports it; it imports `compiler`, `frontend`, `passes`, `graph`, `quantise`, and the frame of pages in `report`.
It places and cuts with the compiler's own functions, so its answer is what `cnna compile` does afterwards.
Begin with `explain`.
"""
