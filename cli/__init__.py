"""The command `cnna`: one file for each command, imported only when the command runs.

This package stands on top of all others: it may import any of them, and none imports it. A command imports the compiler and the
simulation inside its functions, because a board has neither.
Begin with `main`, the table of commands; then read the file of the command that you care about.
"""
