"""What answers are judged by, one file for each task, in numpy alone; `detection` also needs pycocotools.

A task keeps a record of each answer, and makes figures of the records alone. Begin with `task`, which says what all have.
"""
