"""What `lower` makes of the int8 graph: kernels on stored maps, before anything has an address or a size limit.

A kernel is one pass of the array or the vector engine over whole maps; `tile` cuts it into tiles, `schedule` turns these into
commands. Maps are counted in channel blocks of `ci` channels, images as those of the batch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.graph.ir import Clamp, Combine, Window

Range = tuple[int, int]  # first, and one past the last
LEAD_BYTES = 128  # by which streams that are packed already are told apart first


@dataclass(frozen=True)
class Map:
    """A stored feature map. It holds one tensor or, after concatenation in place, several.

    pitch: words from one row to the next in feature memory (`compiler.plan.pitch` sets it). images: how many images of the batch it
    holds. part_of: the map of all images, if this one is cut from it (`compiler.plan.segment`). depth: blocks in a set
    (`spec.program.decks`).
    """

    name: str
    blocks: int
    height: int
    width: int
    pitch: int
    images: Range = (0, 1)
    part_of: str | None = None
    depth: int = 1


@dataclass(frozen=True)
class View:
    """Channel blocks `block` .. `block + blocks - 1` of a map: where a tensor lies."""

    map: str
    block: int
    blocks: int


@dataclass(frozen=True, eq=False)
class Stream:
    """Bytes that the weight engine brings to a ring: `data`, uint8 [ports, length].

    They are packed when somebody reads them. Plans that are only compared need no more than their number, and `lead`, with which
    they begin, so that most streams can be told apart.

    Each chunk of a kernel takes `unit_words` ring words: first `param_words`, then weights. In the vector ring each block takes as
    many; if they are uniform, only the first takes parameters. Before them all lie `table_words`, for the first command of the
    kernel alone.

    book_beats: 0, or beats of books that lie behind each chunk's parameters; then the chunk's weights lie there as codes
    (`spec.codebook`).
    """

    ports: int
    length: int
    lead: bytes
    packed: Callable[[], NDArray[np.uint8]]
    unit_words: int
    param_words: int
    table_words: int = 0
    book_beats: int = 0

    @cached_property
    def data(self) -> NDArray[np.uint8]:
        """The bytes, port by port."""
        return self.packed()

    @property
    def size(self) -> int:
        """How many bytes they are, on all ports."""
        return self.ports * self.length

    @classmethod
    def of(cls, data: NDArray[np.uint8], unit_words: int, param_words: int, book_beats: int = 0) -> "Stream":
        """The stream of bytes that are packed already."""
        ports, length = data.shape
        lead = data[0, :LEAD_BYTES].tobytes()
        return cls(ports, length, lead, partial(np.asarray, data), unit_words, param_words, book_beats=book_beats)


@dataclass(frozen=True)
class Phase:
    """Pixels that lie between others: every `step`-th row and column of the kernel's output, counted from `first`.

    size: its own rows and columns, which `window` counts. tensor: what they are the whole of, or the kernel's own tensor, of which
    they are a part.
    """

    name: str
    layer: int
    tensor: str
    window: Window
    first: tuple[int, int]
    step: tuple[int, int]
    size: tuple[int, int]

    def rows_within(self, rows: Range) -> Range:
        """Its own rows that lie within a range of the kernel's rows; without any, the second number is not above the first."""
        low, high = (-(-(edge - self.first[0]) // self.step[0]) for edge in rows)
        return max(low, 0), min(high, self.size[0])


@dataclass(frozen=True, eq=False)
class ConvPart:
    """Output chunks that read the same input blocks: `blocks` of the kernel's source, from `first_block` on.

    phase: the phase whose output they are; None: the output is the kernel's own.
    """

    first_chunk: int
    chunks: int
    first_block: int
    blocks: int
    stream: Stream
    phase: Phase | None = None


@dataclass(frozen=True, eq=False)
class VectorPart:
    """A rectangle of the output with its own parameters (average pools divide differently at borders).

    phase: the phase whose output it is; None: the output is the kernel's own. apart: as `VECTOR_WINDOW` has it, for the stream.
    """

    rows: Range
    columns: Range
    stream: Stream
    phase: Phase | None = None
    apart: int = 0


@dataclass(frozen=True)
class KernelParts:
    """What array and vector kernels share.

    second: the residual operand, or the second operand of an elementwise kernel. tensor: the tensor of the graph that `dest` holds,
    from its block `tensor_block` on; None for copies that the graph does not have. images: how many images the kernel computes.
    table: whether it looks up what it rounds; the stream of its first part then begins with the table. rows: of the destination, if
    the kernel makes only a band of them (`compiler.plan.waves`); None: all.
    """

    name: str  # of the node, for messages
    layer: int  # number of the node
    tensor: str | None
    tensor_block: int
    images: Range
    source: View
    second: View | None
    dest: View
    window: Window
    pad: int
    out: Clamp
    table: bool
    rows: Range | None = field(default=None, kw_only=True)


@dataclass(frozen=True, eq=False)
class ConvKernel(KernelParts):
    """A pass of the array.

    `mid` is the sum's own int8 stage; `add` combines it with `second`, or is None where nothing is added.
    """

    mid: Clamp
    add: Combine | None
    parts: tuple[ConvPart, ...]

    @classmethod
    def of(cls, shared: KernelParts, mid: Clamp, add: Combine | None, parts: tuple[ConvPart, ...]) -> "ConvKernel":
        """The kernel that has these fields of its own."""
        return cls(**vars(shared), mid=mid, add=add, parts=parts)


@dataclass(frozen=True, eq=False)
class VectorKernel(KernelParts):
    """A pass of the vector engine. `op` is one of `regmap.VECTOR_OPS`; uniform: one set of parameters serves every block.

    flat: `second` is one word of each block for all pixels, and the engine's first operand; otherwise `source` is the first.
    zero: of the first operand, in a product; `pad` is that of the other.
    """

    op: str
    factor_b: int
    uniform: bool
    parts: tuple[VectorPart, ...]
    flat: bool = False
    zero: int = 0

    @classmethod
    def of(cls, shared: KernelParts, op: str, factor_b: int, uniform: bool, parts: tuple[VectorPart, ...]) -> "VectorKernel":
        """The kernel that has these fields of its own."""
        return cls(**vars(shared), op=op, factor_b=factor_b, uniform=uniform, parts=parts)


Kernel = ConvKernel | VectorKernel
Part = ConvPart | VectorPart


def views_of(kernel: Kernel) -> dict[str, View]:
    """The view that a kernel has in each of its roles."""
    views = {"source": kernel.source, "second": kernel.second, "dest": kernel.dest}
    return {role: view for role, view in views.items() if view is not None}


def phases(kernel: Kernel, map_: Map) -> dict[Phase, tuple[Part, ...]]:
    """The parts of each phase. A kernel without phases counts as one phase that fills its destination `map_`."""
    size = (map_.height, map_.width)
    whole = Phase(kernel.name, kernel.layer, kernel.tensor or "", kernel.window, (0, 0), (1, 1), size)
    found: dict[Phase, tuple[Part, ...]] = {}
    for part in kernel.parts:
        phase = part.phase or whole
        found[phase] = (*found.get(phase, ()), part)
    return found


def one_by_one(kernel: Kernel) -> tuple[Kernel, ...]:
    """A kernel for each phase, under its node's name; the kernel itself if it has none."""
    found: dict[Phase | None, list[Part]] = {}
    for part in kernel.parts:
        found.setdefault(part.phase, []).append(part)
    return tuple(
        with_parts(replace(kernel, name=phase.name, layer=phase.layer, tensor=phase.tensor, window=phase.window), parts)
        if phase
        else kernel
        for phase, parts in found.items()
    )


def with_parts(kernel: Kernel, parts: Sequence[Part]) -> Kernel:
    """The kernel with other parts, which are of its own engine."""
    if isinstance(kernel, ConvKernel):
        convs = tuple(part for part in parts if isinstance(part, ConvPart))
        assert len(convs) == len(parts)
        return replace(kernel, parts=convs)
    rectangles = tuple(part for part in parts if isinstance(part, VectorPart))
    assert len(rectangles) == len(parts)
    return replace(kernel, parts=rectangles)


@dataclass(frozen=True)
class Lowered:
    """Kernels in order, their maps, where each tensor lies, and which maps the host writes and reads."""

    kernels: tuple[Kernel, ...]
    maps: Mapping[str, Map]
    views: Mapping[str, View]
    inputs: tuple[str, ...]  # maps that the host writes: each is one graph input
    outputs: tuple[str, ...]  # maps that the host reads, in the order of the graph's outputs

    def whole(self, map_: str) -> str:
        """The name of the map that holds all images: the map itself, or the one that it is cut from."""
        return self.maps[map_].part_of or map_

    def pixels(self, kernel: Kernel, images: int | None = None) -> int:
        """The output pixels of a kernel: in all of its images, or in `images` of them."""
        dest, (first, last), (low, high) = self.maps[kernel.dest.map], kernel.images, self.rows(kernel)
        return (last - first if images is None else images) * (high - low) * dest.width

    def rows(self, kernel: Kernel) -> Range:
        """The rows of its destination that a kernel makes."""
        return kernel.rows or (0, self.maps[kernel.dest.map].height)


def reach(first: int, last: int, stride: int, pad: int, kernel: int, dilation: int, size: int) -> Range:
    """Source rows (or columns) within 0..size-1 that output rows first..last-1 read. The range is never empty: where all reads fall
    into the padding, it is the nearest row.
    """
    low = first * stride - pad
    high = (last - 1) * stride - pad + (kernel - 1) * dilation + 1
    low, high = min(max(low, 0), size - 1), max(min(high, size), 1)
    return low, max(high, low + 1)


def source_rows(window: Window, rows: Range, height: int) -> Range:
    """`reach` of a window's rows."""
    return reach(*rows, window.stride[0], window.pads[0], window.kernel[0], window.dilation[0], height)


def source_columns(window: Window, columns: Range, width: int) -> Range:
    """`reach` of a window's columns."""
    return reach(*columns, window.stride[1], window.pads[1], window.kernel[1], window.dilation[1], width)
