"""The words of the weight rings that commands bring and take, from the commands' fields: numbers, or arrays with one for each.

`checks.program` compares their sums, and reports draw how full the rings are.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from cnna.spec.codebook import BOOKS, CODES
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.program.commands import Fields, Numbers
from cnna.spec.program.window import steps_in_row
from cnna.spec.regmap import VECTOR_OPS


def groups(f: Fields, config: Config) -> Numbers:
    """Groups of `pix` output pixels of conv or vector commands."""
    return -(-f["images"] * f["out_height"] * f["out_width"] // config.pix)


def terms(f: Fields) -> Numbers:
    """Steps of a conv command for a group of a chunk: one for each tap of each source block."""
    return f["blocks"] * f["kernel_height"] * f["kernel_width"]


def stripe(f: Mapping[str, Any], config: Config) -> Numbers:
    """Bytes of a ring word on each port, of weight commands, as they come: codes take half. f: of arrays, or of numbers."""
    array = config.stripe_bytes >> (f["code"] == CODES)
    found: Numbers = array + (config.vector_word_bytes - array) * (f["ring"] == 1)
    return found


def brought_words(f: Fields | Mapping[str, int], config: Config) -> Numbers:
    """Words that weight commands bring. Books are none."""
    words: Numbers = f["repeat"] * (f["beats"] * BEAT_BYTES // stripe(f, config))
    return words * (f["code"] != BOOKS)


def taken_weights(f: Fields, config: Config) -> Numbers:
    """Words that conv commands take from the weight ring."""
    words = f["chunks"] * (config.param_words + terms(f) * np.where(f["stream"] == 1, groups(f, config), 1))
    return words + f["table_load"] * config.table_words


def taken_parameters(f: Fields, config: Config) -> Numbers:
    """Words that vector commands take from the vector ring."""
    params = np.where(f["uniform"] == 1, 1, f["blocks"]) * config.vector_param_words
    depthwise = f["op"] == VECTOR_OPS.index("depthwise")
    weights = depthwise * f["blocks"] * f["kernel_height"] * steps_in_row(f["kernel_width"], f["window_apart"])
    return params + weights + f["table_load"] * config.vector_table_words
