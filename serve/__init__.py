"""The serving engine: answers requests for models, from several boards at once.

`models` reads repositories, `boards` has one worker process for each board. Begin with `boards/process.py`.
"""
