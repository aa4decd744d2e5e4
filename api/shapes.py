"""A small detector of discs, squares and crosses, and scenes and clips for it: a model to try, as in the notebooks about detectors.

from cnna import shapes
model, scenes = shapes.detector(), shapes.scenes(8, seed=3)
"""

from cnna.compiler.zoo.shapes import CLASSES, EDGE, PRIOR, STRIDE, Scene, clip, decoding, detector, scenes

__all__ = ["CLASSES", "EDGE", "PRIOR", "STRIDE", "Scene", "clip", "decoding", "detector", "scenes"]
