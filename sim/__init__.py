"""Executions without a board: the integer reference, the emulator and the simulated RTL."""
