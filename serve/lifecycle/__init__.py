"""The lives of versions, boards and batches: tables of states, and pure functions from a state and an event to a state and effects.

Only `serve.engine` imports it; it carries the effects out. Nothing here knows a clock, a process or asyncio, so tests take a
million steps in a minute. Begin with `versions`; docs/serving/lifecycle.md has the pictures.
"""
