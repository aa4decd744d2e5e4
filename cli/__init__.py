"""The command `cnna`: one file a command, each imported only when it runs.

This package stands on top of all others: it may import everybody, and nobody imports it. A command imports the compiler and the
simulation inside its functions, because a board has neither.
Begin with `main`, the table of commands, then read the file of the command that you care about.
"""
