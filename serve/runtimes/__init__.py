"""Runtimes: what answers the samples of a version without an accelerator, each a class behind an entry point.

Repositories ask what a version takes and gives; workers open it and run it. Only a worker and the short process of `describe`
import a runtime's own packages. Begin with `interface`, which is all that a runtime of your own needs.
"""
