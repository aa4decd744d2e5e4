"""How samples become the accelerator's bytes: preprocessing, resampling, quantisation and the layout of words.

Begin with `pack`.
"""
