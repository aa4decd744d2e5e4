"""The order of the passes, for float graphs and int8 graphs. Each pass is a function from graph to graph in a file of its own."""

from collections.abc import Callable

from cnna.compiler.graph.ir import Graph
from cnna.compiler.graph.validate import validate
from cnna.compiler.passes.canonical.canonical_bilinear import canonical_bilinear
from cnna.compiler.passes.canonical.canonical_blocks import canonical_blocks
from cnna.compiler.passes.canonical.canonical_chains import canonical_chains
from cnna.compiler.passes.canonical.canonical_conv import canonical_conv
from cnna.compiler.passes.canonical.canonical_conv_transpose import canonical_conv_transpose
from cnna.compiler.passes.canonical.canonical_elementwise import canonical_elementwise
from cnna.compiler.passes.canonical.canonical_gemm import canonical_gemm
from cnna.compiler.passes.canonical.canonical_join import canonical_join
from cnna.compiler.passes.canonical.canonical_pad import canonical_pad
from cnna.compiler.passes.canonical.canonical_pixels import canonical_pixels
from cnna.compiler.passes.canonical.canonical_pools import canonical_pools
from cnna.compiler.passes.canonical.canonical_views import canonical_views
from cnna.compiler.passes.canonical.split_slices import split_slices
from cnna.compiler.passes.drop_identity import drop_identity
from cnna.compiler.passes.fold_constants import fold_constants
from cnna.compiler.passes.fusion.fuse_affine import fuse_affine
from cnna.compiler.passes.fusion.fuse_clip import fuse_clip
from cnna.compiler.passes.fusion.fuse_focus import fuse_focus
from cnna.compiler.passes.fusion.fuse_pad import fuse_pad
from cnna.compiler.passes.fusion.fuse_requantise import fuse_requantise
from cnna.compiler.passes.fusion.fuse_residual import fuse_residual
from cnna.compiler.passes.fusion.fuse_table import fuse_table
from cnna.compiler.passes.fusion.slice_pad import slice_pad
from cnna.compiler.passes.rounding.annotate_quantisation import annotate_quantisation
from cnna.compiler.passes.rounding.check_scales import check_scales
from cnna.compiler.passes.rounding.dequantise_constants import dequantise_constants
from cnna.compiler.passes.rounding.hoist_dequantise import hoist_dequantise
from cnna.compiler.passes.rounding.inherit_quantisation import inherit_quantisation
from cnna.compiler.passes.rounding.integer_ends import integer_ends
from cnna.compiler.passes.rounding.integer_limits import integer_limits
from cnna.compiler.passes.rounding.pair_quantisation import pair_quantisation
from cnna.compiler.passes.rounding.quantise_before import quantise_before
from cnna.compiler.passes.rounding.quantise_between import quantise_between
from cnna.compiler.passes.unroll_sequences import unroll_sequences
from cnna.compiler.passes.views.absorb_views import absorb_views
from cnna.compiler.passes.views.channel_shuffle import channel_shuffle
from cnna.compiler.passes.views.pixel_shuffle import pixel_shuffle
from cnna.compiler.passes.views.sink_views import sink_views

Pass = Callable[[Graph], Graph]
Dump = Callable[[str, Graph], None]

PLAIN: tuple[Pass, ...] = (fold_constants, unroll_sequences)  # which leave the operators that the model has, with the shapes known
REWRITES: tuple[Pass, ...] = (  # for a float graph
    *PLAIN,
    check_scales,
    dequantise_constants,
    split_slices,
    integer_limits,
    hoist_dequantise,
    pair_quantisation,
    integer_ends,
    canonical_views,
    canonical_pixels,
    canonical_bilinear,
    canonical_pad,
    canonical_blocks,
    drop_identity,
    canonical_conv,
    canonical_conv_transpose,
    canonical_gemm,
    canonical_pools,
    canonical_chains,
    canonical_elementwise,
    sink_views,
    canonical_pools,  # again, for means that read a Transpose only since `sink_views`
    sink_views,
    drop_identity,
    absorb_views,
    pixel_shuffle,
    canonical_join,
    fuse_affine,
    fuse_clip,
    slice_pad,
    fuse_pad,
    channel_shuffle,
)
QUANTISATION: tuple[Pass, ...] = (annotate_quantisation, inherit_quantisation, quantise_between, quantise_before)
INTEGER: tuple[Pass, ...] = (fuse_table, fuse_residual, fuse_requantise, fuse_focus)  # for an int8 graph


def run_passes(graph: Graph, passes: tuple[Pass, ...], dump: Dump | None = None) -> Graph:
    """Runs the passes in order. `dump` is called with each pass's name and its graph.

    Validates the graph after each pass that gives back another one than it got, and after the first.
    """
    valid = None
    for one in passes:
        graph = one(graph)
        if graph is not valid:
            validate(graph)
            valid = graph
        if dump:
            dump(one.__name__, graph)
    return graph
