"""What all fronts share: where they listen, how the server starts and ends with them, and its log.

The fronts import it, and the command line. Begin with `service`.
"""
