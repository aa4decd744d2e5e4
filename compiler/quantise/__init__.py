"""Post-training quantisation: calibration, ranges, and the QDQ model that comes out.

`jobs` and `explain` import it; it imports `frontend`, `passes` and `graph`.
Begin with `quantise`; `examine` measures what it costs.
"""
