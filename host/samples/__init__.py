"""The samples that users hand over: files of arrays, read a few at a time, folders of pictures, and how pictures become an input.

All that opens such a file does it here: the command line, models, the server and the notebooks. It imports `cnna.spec` alone, whose
`samples` has the arithmetic. Begin with `given`, which opens a path, or with `rows`, which all the rest gives.
"""
