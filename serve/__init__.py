"""The serving engine: answers requests for models, from several boards at once.

`models` reads repositories. Begin with `models/repository.py`.
"""
