"""Splits a quantised model in two, for an edge with an accelerator and a cloud behind a link (`cnna split`).

The command imports it. `cuts` finds where that is possible, `halves` makes the two models, `costs` says how quick each would be,
`repositories` writes what both sides' servers need.
"""
