"""The registers that command the engines: tables of `regmap`, one for each engine.

A program may write these registers and END, nothing else. `regmap` says how they make commands, and `docs/engines.md` what the
commands do. Names that `regmap` needs too stand here; everybody else imports them from there.
"""

from cnna.spec.config import PARAM_BITS
from cnna.spec.field import Field
from cnna.spec.program.window import APART_MOST

COUNTED = ("load", "conv", "vector", "store")  # the engines for which commands can wait
WEIGHT_KINDS = ("plain", "books", "codes")  # of the beats that weight commands bring (`spec.codebook`)
VECTOR_OPS = ("depthwise", "average", "max", "elementwise", "minimum", "product")

ADDRESS_BITS = 20  # of a feature word address
DECK_BIT = ADDRESS_BITS - 1  # of an address, with depth 2: its deck. The bits below it count modulo 2^19
COUNT_BITS = 24  # of a progress counter


def _address(name: str, doc: str) -> list[Field]:
    return [Field(name, ADDRESS_BITS, "rw", doc)]


def _step(name: str, doc: str) -> list[Field]:
    return [Field(name, ADDRESS_BITS, "rw", doc, signed=True)]


def _number(name: str, bits: int, doc: str, low: int | None = None, high: int | None = None, signed: bool = False) -> list[Field]:
    return [Field(name, bits, "rw", doc, low=low, high=high, signed=signed)]


def _dma(prefix: str, direction: str) -> dict[str, list[Field]]:
    return {
        f"{prefix}_SEG": _number("segment", 2, "Segment that DDR offsets count from (constant, workspace, input, output)."),
        f"{prefix}_DDR": _number("offset", 32, "Byte offset of the first word run in the segment; a multiple of 16."),
        f"{prefix}_FM": _address("address", "Feature word address of the first word run."),
        f"{prefix}_RUN": _number("words", 17, f"Feature words in a word run, contiguous on both sides; {direction}.", low=1),
        f"{prefix}_RUNS": _number("runs", 16, "Word runs in a block.", low=1),
        f"{prefix}_DDR_RUN": _number("bytes", 32, "Bytes in DDR from a word run to the next; a multiple of 16."),
        f"{prefix}_FM_RUN": _step("words", "Words from a word run to the next."),
        f"{prefix}_BLOCKS": _number("blocks", 16, "Blocks.", low=1),
        f"{prefix}_DDR_BLOCK": _number("bytes", 32, "Bytes in DDR from a block to the next; a multiple of 16."),
        f"{prefix}_FM_BLOCK": _step("words", "Words from a block to the next."),
    }


def _source(prefix: str) -> dict[str, list[Field]]:
    """The registers of a walk over a source: output pixels outside, window taps inside."""
    return {
        f"{prefix}_SRC": _address(
            "address", "Word that output pixel 0 reads at tap 0, block 0 (modulo 2^20; may lie in the padding)."
        ),
        f"{prefix}_SRC_X": _step("words", "Words from an output pixel's source to the next pixel's (column stride)."),
        f"{prefix}_SRC_ROW": _step("words", "Words added at each new output row, on top of SRC_X for each pixel."),
        f"{prefix}_SRC_IMAGE": _step("words", "Words added at each new image, on top of SRC_X and SRC_ROW."),
        f"{prefix}_SRC_KX": _step("words", "Words from a tap to the next in its row (column dilation)."),
        f"{prefix}_SRC_KY": _step("words", "Words from a tap row to the next (row dilation x pitch)."),
        f"{prefix}_SRC_BLOCK": _step("words", "Words from a channel block to the next."),
        f"{prefix}_OUT": [
            Field("width", 13, "rw", "Output columns.", low=1),
            Field("height", 13, "rw", "Output rows.", low=1),
        ],
        f"{prefix}_IMAGES": _number("images", 9, "Images.", low=1),
        f"{prefix}_KERNEL": [
            Field("width", 8, "rw", "Taps in a row.", low=1),
            Field("height", 8, "rw", "Tap rows.", low=1),
        ],
        f"{prefix}_FIRST": [
            Field("x", 12, "rw", "Source column of pixel 0, tap 0: minus the left padding.", signed=True),
            Field("y", 12, "rw", "Source row of pixel 0, tap 0: minus the top padding.", signed=True),
        ],
        f"{prefix}_STRIDE": [
            Field("x", 6, "rw", "Source columns from an output pixel to the next."),
            Field("y", 6, "rw", "Source rows from an output row to the next."),
            Field("dilation_x", 6, "rw", "Source columns from a tap to the next."),
            Field("dilation_y", 6, "rw", "Source rows from a tap row to the next."),
        ],
        f"{prefix}_IN": [
            Field("width", 13, "rw", "Source columns; a tap outside 0..width-1 reads PAD.", low=1),
            Field("height", 13, "rw", "Source rows; a tap outside 0..height-1 reads PAD.", low=1),
        ],
        f"{prefix}_PAD": _number("value", 8, "What a tap outside the source reads.", signed=True),
    }


def _plane(prefix: str, what: str) -> dict[str, list[Field]]:
    """The registers of a walk over output pixels, with the channel blocks of a chunk inside."""
    return {
        prefix: _address("address", f"Word of {what}'s pixel 0, block 0."),
        f"{prefix}_X": _step("words", "Words from a pixel to the next."),
        f"{prefix}_ROW": _step("words", "Words added at each new row, on top of X for each pixel."),
        f"{prefix}_IMAGE": _step("words", "Words added at each new image, on top of X and ROW."),
        f"{prefix}_BLOCK": _step("words", "Words from a channel block to the next."),
    }


def _clamp(prefix: str, what: str) -> dict[str, list[Field]]:
    return {
        f"{prefix}_ZERO": _number("zero", 8, f"Zero point of {what}.", signed=True),
        f"{prefix}_CLAMP": [
            Field("low", 8, "rw", f"Least value of {what}.", signed=True),
            Field("high", 8, "rw", f"Greatest value of {what}.", signed=True),
        ],
    }


def _waits(prefix: str) -> dict[str, list[Field]]:
    return {
        f"{prefix}_WAIT_{engine.upper()}": [
            Field(
                "count",
                COUNT_BITS,
                "rw",
                f"Units that `{engine}` must have finished since start, before unit 0 begins.",
            ),
            Field("step", 1, "rw", "Adds the unit's number to count."),
            Field("enable", 1, "rw", "Waits at all."),
        ]
        for engine in COUNTED
    }


def _go(prefix: str, what: str) -> dict[str, list[Field]]:
    return {f"{prefix}_GO": [Field("go", 1, "pulse", f"Queues {what}; holds the write while the queue is full.")]}


def _table(prefix: str, what: str, ring: str) -> dict[str, list[Field]]:
    """A register behind GO: an addition moves no offset. A start of a program clears it."""
    return {
        f"{prefix}_TABLE": [
            Field("use", 1, "rw", f"Takes {what} from the table: its byte is the number of the entry. A start sets it to 0."),
            Field("load", 1, "rw", f"Takes a new table from the {ring} first. A start sets it to 0."),
        ]
    }


LOAD = {**_dma("LOAD", "read from DDR"), **_waits("LOAD"), **_go("LOAD", "a copy from DDR into feature memory")}
STORE = {**_dma("STORE", "written to DDR"), **_waits("STORE"), **_go("STORE", "a copy from feature memory into DDR")}

WEIGHT = {
    "WEIGHT_RING": _number("ring", 1, "0: weight ring, every port. 1: vector ring, port 0 alone."),
    "WEIGHT_SEG": _number("segment", 2, "Segment that WEIGHT_DDR counts from."),
    "WEIGHT_DDR": _number("offset", 32, "Byte offset of port 0's stripe; a multiple of 16."),
    "WEIGHT_PORT": _number("bytes", 32, "Bytes from a port's stripe to the next port's; a multiple of 16."),
    "WEIGHT_BEATS": _number("beats", 28, "Beats of 16 bytes on each port, contiguous.", low=1),
    "WEIGHT_REPEAT": _number("times", 20, "How often the same beats are brought.", low=1),
    **_go("WEIGHT", "a stream into a ring"),
    "WEIGHT_CODE": _number(
        "kind",
        2,
        "0: beats of ring words. 1: books. 2: codes, a beat of which becomes two. A start sets it to 0. With MEMORY.codebook only.",
        high=len(WEIGHT_KINDS) - 1,
    ),
}

CONV = {
    **_source("CONV"),
    "CONV_BLOCKS": _number("blocks", 12, "Input channel blocks summed over.", low=1),
    "CONV_CHUNKS": _number("chunks", 12, "Output channel chunks: the units of this engine.", low=1),
    "CONV_STREAM": _number("stream", 1, "1: every pixel group takes fresh weights from the ring. 0: a chunk's groups share them."),
    **_clamp("CONV_MID", "the sum's own int8 result"),
    **_plane("CONV_DST", "the destination"),
    "CONV_DST_BLOCKS": _number("blocks", 16, "Channel blocks written in all; those beyond are dropped.", low=1),
    "CONV_RES_ENABLE": _number("enable", 1, "Adds a residual operand."),
    **_plane("CONV_RES", "the residual operand"),
    "CONV_ADD_A": _number("factor", PARAM_BITS["factor"], "Multiplier of the sum's int8 result.", signed=True),
    "CONV_ADD_B": _number("factor", PARAM_BITS["factor"], "Multiplier of the residual operand.", signed=True),
    "CONV_ADD_OFFSET": _number("offset", 32, "Added to both products.", signed=True),
    "CONV_ADD_SHIFT": _number("bits", PARAM_BITS["shift"], "Right shift of the sum, rounded half to even.", low=1, high=55),
    **_clamp("CONV_OUT", "what is written"),
    **_waits("CONV"),
    **_go("CONV", "a convolution"),
    **_table("CONV", "the sum's own int8 result", "weight ring"),
}

VECTOR = {
    "VECTOR_OP": _number("op", 3, "0 depthwise, 1 average, 2 max, 3 elementwise, 4 minimum, 5 product.", high=len(VECTOR_OPS) - 1),
    **_source("VECTOR"),
    "VECTOR_BLOCKS": _number("blocks", 16, "Channel blocks, one after another; co / ci of them (or the rest) are a unit.", low=1),
    "VECTOR_UNIFORM": _number(
        "uniform", 1, "1: block 0's parameters serve all blocks. 0: every block takes its own from the ring."
    ),
    "VECTOR_ADD_B": _number("factor", PARAM_BITS["factor"], "Multiplier of tap 1 in an elementwise operation.", signed=True),
    **_clamp("VECTOR_OUT", "what is written"),
    **_plane("VECTOR_DST", "the destination"),
    **_waits("VECTOR"),
    **_go("VECTOR", "a pass of the vector engine"),
    **_table("VECTOR", "what is written", "vector ring"),
    "VECTOR_B": [
        Field("zero", 8, "rw", "Zero point of tap 0 in a product; that of tap 1 is PAD. A start sets it to 0.", signed=True),
        Field("flat", 1, "rw", "1: tap column 0 reads one word for all pixels. A start sets it to 0."),
        Field("block", ADDRESS_BITS, "rw", "Words from that word to the next block's. A start sets it to 0.", signed=True),
    ],
    "VECTOR_WINDOW": [
        Field(
            "apart",
            2,
            "rw",
            "Taps from a pixel's source to the next one's; 0: a tap a step. A start sets it to 0.",
            high=APART_MOST,
        ),
        Field("columns", 13, "rw", "Output columns that are written; 0: all. A start sets it to 0."),
    ],
}
