"""The data on which models are measured, one file for each layout: samples, what is right for each, and the names of classes.

Begin with `dataset`, which says what a layout gives, or with `layouts`, which finds that of a path.
`host.samples` reads pictures and arrays.
"""
