"""Whether a `.cnna` file is sound: its archive, the kinds of its manifest's entries, and its programs.

`artifact` and `manifest` call these checks as they load a file, and the emulator calls those of a program's commands. Nobody else
needs them. Begin in `soundness.py`, which checks that the entries agree; `program.py` holds the limits of each command.
"""
