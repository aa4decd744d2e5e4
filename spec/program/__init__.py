"""What a register program consists of: the commands, their registers, and the words that they find in rings and windows.

Begin with `commands`.
"""
