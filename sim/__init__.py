"""Executions without a board. Here stand `check`, which compares executions, and `testbench` for users' own cocotb tests.

These run whole models, so they import the host's driver; the rooms below import `spec`, `hw` and the compiler's frontend, never
the host. Begin with `check`, or with the room of the execution that you want.
"""
