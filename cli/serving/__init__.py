"""The commands that serve models to others.

Part of `cli`: each file is a command. Begin with `serve`.
"""
