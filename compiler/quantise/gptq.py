"""Learned rounding: weights are rounded one after another, and those not yet rounded make up for the error of each.

The layer's inputs on the calibration samples say how much each weight must change, so that the layer's sums change least.

After E. Frantar, S. Ashkboos, T. Hoefler, D. Alistarh, "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained
Transformers", arXiv:2210.17323 (2022). It needs inputs, and no labels.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from cnna.compiler.quantise.books import nearest_in
from cnna.compiler.quantise.weights import WEIGHT_MAX

DAMPING = 0.01  # of the mean of a Hessian's diagonal, added to it (section 3.3 of the paper)
BLOCK = 128  # columns whose rounding is spread to all later columns together (section 3.3, "lazy batch updates")
LARGEST = 768  # taps that are learned together; of more, parts are learned by themselves, as if their inputs were unrelated


def parts_of(taps: int) -> list[slice]:
    """The taps of an output channel in parts of nearly equal size, none above LARGEST."""
    ends = np.linspace(0, taps, -(-taps // LARGEST) + 1).astype(int).tolist()
    return [slice(start, stop) for start, stop in pairwise(ends)]


def learned(weights: np.ndarray, scales: np.ndarray, hessian: np.ndarray, books: np.ndarray | None = None) -> np.ndarray:
    """Multiples of `scales` near the weights: [groups, channels, taps]; scales: [groups, channels]; hessian: [groups, taps, taps].

    books: of each channel, [groups, channels, ENTRIES]: then only these multiples; None: those that int8 has.

    The hessian is that of the squared error of the outputs, H = X X^T over inputs X, here without their mean: a corrected bias
    takes the mean of the error out. With the Cholesky factor U of its inverse, H^-1 = U^T U, the weights are rounded column by
    column, and the error of column q is spread over the later ones (algorithm 1, equations 2 and 3 of the paper):

        e = (w_q - round(w_q)) / U_qq,    w_j -= e * U_qj  for j > q

    Columns with the greatest inputs come first, as the authors' code has it ("act order").
    """
    order = np.argsort(-np.einsum("gii->gi", hessian), axis=1, kind="stable")
    whole, factors = np.take_along_axis(weights / scales[..., None], order[:, None], axis=2), _factors(hessian, order)
    for start, stop in _blocks(whole.shape[2]):
        errors = np.zeros((*whole.shape[:2], stop - start))
        for column in range(start, stop):
            w = whole[..., column]
            rounded = np.clip(np.rint(w), -WEIGHT_MAX, WEIGHT_MAX) if books is None else nearest_in(books, w[..., None])[..., 0]
            error = (w - rounded) / factors[:, column, column, None]
            whole[..., column] = rounded
            whole[..., column + 1 : stop] -= error[..., None] * factors[:, None, column, column + 1 : stop]
            errors[..., column - start] = error
        whole[..., stop:] -= errors @ factors[:, start:stop, stop:]
    found = np.empty_like(whole)
    np.put_along_axis(found, order[:, None], whole, axis=2)
    return found * scales[..., None]


def _factors(hessian: np.ndarray, order: np.ndarray) -> np.ndarray:
    """U of H^-1 = U^T U for each group, upper triangular, with the taps in `order`; the Hessian is damped first.

    It is the inverse of R in H = R R^T, upper triangular too, which a Cholesky factor has with the taps in reverse.
    """
    turned = np.take_along_axis(np.take_along_axis(hessian, order[:, :, None], axis=1), order[:, None], axis=2)
    taps = turned.shape[1]
    mean = np.einsum("gii->g", turned) / taps
    damped = turned + np.where(mean > 0, DAMPING * mean, 1.0)[:, None, None] * np.eye(taps)
    reverse = np.linalg.cholesky(damped[:, ::-1, ::-1].astype(np.float32))[:, ::-1, ::-1]
    return np.triu(np.linalg.inv(reverse)).astype(np.float64)


def _blocks(columns: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + BLOCK, columns)) for start in range(0, columns, BLOCK))
