"""Packages of a repository: what carries the engine, or its models alone, to where they run (docs/cluster.md).

The command line and `jobs` import it. `library` is for applications in C and C++, `service` a Debian package for a board, `image` a
container, and `cluster` what runs many of these. Begin with `contents`, which says what of a repository goes into one.
"""
