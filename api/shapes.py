"""A small detector of discs, squares and crosses, and scenes for it: a model to try, as in the notebook about detectors.

from cnna import shapes
model, scenes = shapes.detector(), shapes.scenes(8, seed=3)
"""

from cnna.compiler.zoo.shapes import CLASSES, EDGE, PRIOR, STRIDE, Scene, detector, scenes

__all__ = ["CLASSES", "EDGE", "PRIOR", "STRIDE", "Scene", "detector", "scenes"]
