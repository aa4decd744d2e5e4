"""The samples that a user hands to a command: arrays, read a few at a time, and pictures, with the options that prepare them.

Begin with `arrays`.
"""
