"""Structured pruning: channels of a float network go, so that it takes fewer clocks of a configuration.

`follow` follows channels through a model, `cut` removes some, `saliency` says which matter least, `fit` makes up for them by
least squares, `clocks` predicts what is saved, and `search` chooses. `jobs` imports it; it stands on the compiler's public parts.
Begin with `prune`; docs/pruning.md says why.
"""
