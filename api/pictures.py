"""Pictures as a model takes them, and inputs as pictures to look at: what the notebooks and programs like them need.

from cnna import pictures
found = pictures.samples("photos", shape, 10)
answers = session.run(None, {name: pictures.taken(found.x, session.manifest)})
"""

from cnna.host.samples.pictures import MEAN, STD, Samples, find, read, samples, shown, taken

__all__ = ["MEAN", "STD", "Samples", "find", "read", "samples", "shown", "taken"]
