"""Weights as codes of 4 bits into books of 16 int8 values: how both lie in DDR, and what they stand for.

A ring word holds `ci` weights of each output channel; these `ci` bytes are a *row*. Each row of a port's stripe has a *book*: 16
values, of which its weights are some. The port brings the books first (`WEIGHT_CODE` 1), then the words with a code in place of
each weight (`WEIGHT_CODE` 2). A beat of 32 codes becomes two beats of the ring.

- *Codes.* Byte i of the codes has the code of byte 2i of the stripe in its lower half, and that of byte 2i + 1 in its upper half.
- *Books.* Rows are taken 8 at a time. Each 8 rows have 16 beats: byte r of beat e is entry e of the book of row r. The upper half
  of these beats is empty. So each of the decoder's memories gets one entry a clock, and the beats of books need no queue.

Hardware, emulator, compiler and checks all follow this file.
"""

import numpy as np
from numpy.typing import NDArray

from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.regmap import WEIGHT_KINDS

ENTRIES = 16  # of a book
BOOK_ROWS = 8  # whose books come together
PLAIN, BOOKS, CODES = range(len(WEIGHT_KINDS))  # as WEIGHT_CODE has them


def stripe_rows(config: Config) -> int:
    """Rows of a ring word that one port brings."""
    return config.stripe_bytes // config.ci


def book_beats(config: Config) -> int:
    """Beats on each port of the books of a ring word's rows."""
    return ENTRIES * -(-stripe_rows(config) // BOOK_ROWS)


def word_beats(config: Config) -> int:
    """Beats on each port of a ring word in codes."""
    return config.stripe_bytes // (2 * BEAT_BYTES)


def books_of(words: NDArray[np.int8]) -> NDArray[np.int8] | None:
    """The book of each row of a chunk's ring words int8 [words, rows, ci]: int8 [rows, ENTRIES], rising.

    Where a row has fewer values, its greatest one fills the book up. None: a row needs more entries.
    """
    values = np.sort(words.transpose(1, 0, 2).reshape(words.shape[1], -1), axis=1)
    place = (values[:, 1:] != values[:, :-1]).cumsum(axis=1, dtype=np.uint8 if values.shape[1] < 256 else np.int32)
    if place.shape[1] and int(place[:, -1].max()) >= ENTRIES:
        return None
    books = np.repeat(values[:, -1:], ENTRIES, axis=1)
    books[:, 0] = values[:, 0]
    books[np.arange(len(values))[:, None], place] = values[:, 1:]
    return books


def codes_of(words: NDArray[np.int8], books: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Where each weight of ring words int8 [words, rows, ci] stands in its row's rising book: uint8, of the same shape."""
    codes = np.zeros(words.shape, np.uint8)
    for entry in range(ENTRIES - 1):
        codes += words > books[None, :, entry, None]
    return codes


def packed_codes(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Codes uint8 [..., bytes], two in a byte: uint8 [..., bytes / 2]."""
    return np.asarray(codes[..., ::2] | codes[..., 1::2] << 4, np.uint8)


def packed_books(books: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Books int8 [..., rows, ENTRIES] of the rows of a stripe, as the port brings them: uint8 [..., beats * BEAT_BYTES]."""
    *lead, rows, _ = books.shape
    sets = -(-rows // BOOK_ROWS)
    beats = np.zeros((*lead, sets, ENTRIES, BEAT_BYTES), np.uint8)
    for row in range(rows):
        beats[..., row // BOOK_ROWS, :, row % BOOK_ROWS] = books[..., row, :].view(np.uint8)
    return beats.reshape(*lead, -1)


def unpacked_books(beats: NDArray[np.uint8], rows: int) -> NDArray[np.int8]:
    """The inverse of `packed_books` for one stripe: uint8 [beats * BEAT_BYTES] to int8 [rows, ENTRIES]."""
    by_row = beats.reshape(-1, ENTRIES, BEAT_BYTES)[:, :, :BOOK_ROWS].transpose(0, 2, 1).reshape(-1, ENTRIES)
    return np.ascontiguousarray(by_row[:rows]).view(np.int8)


def decoded(codes: NDArray[np.uint8], books: NDArray[np.int8], config: Config) -> NDArray[np.uint8]:
    """The bytes of a port's stripes, uint8 [words, stripe], from its codes as they come, and its books int8 [rows, ENTRIES]."""
    places = np.stack([codes & 15, codes >> 4], axis=-1).reshape(-1, len(books), config.ci)
    return books[np.arange(len(books))[:, None], places].view(np.uint8).reshape(-1, config.stripe_bytes)
