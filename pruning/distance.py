"""How far the answers of a narrower network are from those of the whole one, without labels.

Shares of classes that sum to 1, as a Softmax makes them, are compared by Kullback and Leibler's divergence: classes of which both
networks are sure to be wrong count for little. Of other scores of classes, the class is the greatest one, whatever their size; so
the angle between both networks' scores counts. Whatever else a network answers is compared as numbers.
"""

import numpy as np

from cnna.pruning.values import Array

FEWEST_CLASSES = 3  # two scores have but two directions
LEAST_SHARE = 1e-7  # of a class: what a Softmax in float32 still tells apart
ALIKE = 1e-3  # sums of shares
NOTHING = 1e-30


def distance(theirs: Array, ours: Array) -> float:
    """Of an output, [samples, ...], the mean of all samples: the divergence of shares, in nats; of scores, 1 less the cosine of the
    angle between both networks'; else the squared error as a share of what the whole network's answers vary from sample to sample.
    """
    if theirs[0].size == max(theirs[0].shape, default=0) >= FEWEST_CLASSES:
        both = theirs.reshape(len(theirs), -1), ours.reshape(len(ours), -1)
        return _diverged(*both) if _are_shares(both[0]) else _turned(*both)
    varies = float(np.square(theirs - theirs.mean(axis=0)).sum())
    return float(np.square(theirs - ours).sum()) / max(varies, NOTHING)


def _are_shares(answers: Array) -> bool:
    return bool(answers.min() >= 0 and np.abs(answers.sum(axis=1) - 1).max() < ALIKE)


def _diverged(theirs: Array, ours: Array) -> float:
    whole, narrow = (np.maximum(one, LEAST_SHARE) for one in (theirs, ours))
    return float(np.mean((whole * np.log(whole / narrow)).sum(axis=1)))


def _turned(theirs: Array, ours: Array) -> float:
    """Scores are taken around the mean of a sample: what they have in common changes no class."""
    one, other = (each - each.mean(axis=1, keepdims=True) for each in (theirs, ours))
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return float(np.mean(1 - (one * other).sum(axis=1) / np.maximum(lengths, NOTHING)))
