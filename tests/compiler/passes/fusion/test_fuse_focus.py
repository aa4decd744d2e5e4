"""A Focus and the convolution behind it become one convolution of the input."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from cnna.compiler.graph.ir import Clamp, Combine, Conv, Depthwise, Graph, Table, Window
from cnna.compiler.graph.validate import validate_integer
from cnna.compiler.passes.fusion.fuse_focus import MOST_CHANNELS, MOST_TAPS, fuse_focus
from cnna.compiler.passes.pipeline import INTEGER, run_passes
from cnna.compiler.plan.fold import fold_inputs
from cnna.sim.reference import reference
from cnna.spec.config import preset

from .... import networks
from ....graph_builder import Builder
from ..alone import kinds, left_alone

PADDED = Window((3, 3), pads=(1, 1, 1, 1))
YOLO = ((0, 0), (1, 0), (0, 1), (1, 1))  # the order of YOLOv5 and YOLOX: rows change first


@dataclass(frozen=True)
class Focus:
    """What a Focus is made of. places: of each part of the Concat. rows_first: rows are picked by a node of their own."""

    step: tuple[int, int] = (2, 2)
    places: Sequence[tuple[int, int]] = YOLO
    window: Window = PADDED
    channels: int = 3
    size: tuple[int, int] = (8, 12)
    rows_first: bool = False
    groups: int = 1


class Made(Builder):
    """A graph with a Focus."""

    def parts(self, x: str, focus: Focus) -> list[str]:
        """The pixels at each place of the blocks of a map."""
        (down, right), made = focus.step, []
        _, height, width = self.shape(x)
        for row, column in focus.places:
            size = (height // down, width // right)
            if focus.rows_first:
                rows = self.pixels(x, (row, 0), (down, 1), (size[0], width))
                made.append(self.pixels(rows, (0, column), (1, right), size))
            else:
                made.append(self.pixels(x, (row, column), focus.step, size))
        return made

    def copied(self, x: str, stride: tuple[int, int], factor: int = 1) -> str:
        """Each pixel at the corner of a block times `factor`, by a depthwise convolution."""
        channels, height, width = self.shape(x)
        values: dict[str, np.ndarray] = {
            "weights": np.full((channels, 1, 1, 1), factor, np.int8),
            "bias": np.full(channels, -factor * self.zero(x), np.int32),
            "mult": np.full(channels, 1 << 23, np.int32),
            "shift": np.full(channels, 23, np.int32),
        }
        names = {part: f"{x}:{part}:{factor}" for part in values}
        for part, name in names.items():
            self.constants[name] = values[part]
        clamp = Clamp(self.zero(x))
        op = Depthwise(Window(stride=stride), names["weights"], names["bias"], names["mult"], names["shift"], clamp)
        return self.node(op, (x,), (channels, height // stride[0], width // stride[1]), self.zero(x))

    def whole(self, focus: Focus) -> tuple[str, str, str]:
        """The tensors of an input, of its Focus and of the convolution behind it."""
        x = self.input(focus.channels, *focus.size)
        joined = self.concat(*self.parts(x, focus))
        return x, joined, self.conv(joined, 8, focus.window, focus.groups)


def builder(seed: int = 1) -> Made:
    return Made(np.random.default_rng(seed), "focus")


def graph_of(focus: Focus, seed: int = 1) -> Graph:
    made = builder(seed)
    made.whole(focus)
    return made.graph()


def exact(graph: Graph, changed: Graph) -> None:
    """AssertionError: the graph is not sound, or a tensor that is left in it has other values."""
    validate_integer(changed)
    images = networks.inputs(graph, 2, 3)
    expected = reference.run(graph, images)
    for name, value in reference.run(changed, images).items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


FUSED = {
    "YOLO": Focus(),
    "rows, then columns": Focus(rows_first=True),
    "SpaceToDepth": Focus(places=((0, 0), (0, 1), (1, 0), (1, 1))),
    "another order": Focus(places=((1, 1), (0, 1), (1, 0), (0, 0))),
    "one tap": Focus(window=Window()),
    "strided, padded on one side": Focus(window=Window((2, 3), (2, 1), pads=(0, 2, 1, 0))),
    "rows alone": Focus((2, 1), ((1, 0), (0, 0))),
    "uneven blocks": Focus((2, 3), tuple((row, column) for column in range(3) for row in range(2))),
    "most channels": Focus(channels=MOST_CHANNELS),
    "widest": Focus((1, 2), ((0, 0), (0, 1)), Window((1, MOST_TAPS // 2), pads=(0, 8, 0, 8)), size=(2, 40)),
}


@pytest.mark.parametrize("name", FUSED)
def test_is_one_convolution(name):
    """Copies would take more clocks than the convolution; with a weight at the wrong pixel the sum would be another."""
    for seed in (1, 2, 3):
        graph = graph_of(FUSED[name], seed)
        changed = run_passes(graph, INTEGER)
        assert kinds(changed) == ["Conv"]
        exact(graph, changed)


@pytest.mark.parametrize("name", FUSED)
def test_the_array_has_no_more_work(name):
    """An input that is not folded would give the array a step for each pixel of a block, with most lanes empty."""
    config, focus = preset("zcu102"), FUSED[name]
    folded, _ = fold_inputs(fuse_focus(graph_of(focus)), config)
    taps, channels = folded.constants[folded.nodes[0].op.weights].shape[2:], folded.tensors[folded.inputs[0]].shape[0]
    before = np.prod(focus.window.kernel) * -(-focus.channels * len(focus.places) // config.ci)
    assert np.prod(taps) * -(-channels // config.ci) <= before


def test_takes_copies_by_depthwise_convolutions():
    """A Slice that begins at 0 is such a copy: with it, the exporters' Focus would stay."""
    made = builder()
    x = made.input(3, 8, 12)
    rows = made.copied(x, (2, 1))
    parts = [made.copied(rows, (1, 2)), *made.parts(x, Focus(places=YOLO[1:]))]
    made.conv(made.concat(*parts), 8, PADDED)
    graph = made.graph()
    changed = fuse_focus(graph)
    assert kinds(changed) == ["Conv"]
    exact(graph, changed)


def test_keeps_the_table_and_the_residual():
    """The activation behind the stem would be lost, or what is added to it."""
    made = builder()
    _, _, y = made.whole(Focus())
    made.nodes[-1] = replace(made.nodes[-1], op=replace(made.nodes[-1].op, table=Table(bytes(range(255, -1, -1)))))
    other = made.input(8, 4, 6)
    made.add(y, other)
    graph = made.graph()
    changed = run_passes(graph, INTEGER)
    assert kinds(changed) == ["Conv"]
    assert changed.nodes[0].op.table is not None
    assert isinstance(changed.nodes[0].op.residual, Combine)
    exact(graph, changed)


def test_each_input_has_its_own():
    """Two images (a stereo pair) would share the copies of one."""
    made = builder()
    for _ in range(2):
        made.whole(Focus())
    graph = made.graph()
    changed = fuse_focus(graph)
    assert kinds(changed) == ["Conv", "Conv"]
    exact(graph, changed)


def _input_read_twice(made: Made) -> None:
    x, _, _ = made.whole(Focus())
    made.conv(x, 4, PADDED)


def _pixels_read_twice(made: Made) -> None:
    made.whole(Focus())
    made.conv("t1", 4, PADDED)


def _focus_read_twice(made: Made) -> None:
    _, joined, _ = made.whole(Focus())
    made.conv(joined, 4, PADDED)


def _of_a_layer(made: Made) -> None:
    x = made.conv(made.input(3, 8, 12), 3, PADDED)
    made.conv(made.concat(*made.parts(x, Focus())), 8, PADDED)


def _at_several_scales(made: Made) -> None:
    x = made.input(3, 8, 12)
    first, *others = made.parts(x, Focus())
    made.conv(made.concat(made.copy(first), *others), 8, PADDED)


def _of_a_part(made: Made) -> None:
    x = made.input(3, 9, 12)
    made.conv(made.concat(*(made.pixels(x, place, (2, 2), (4, 6)) for place in YOLO)), 8, PADDED)


def _of_other_values(made: Made) -> None:
    x = made.input(3, 8, 12)
    made.conv(made.concat(made.copied(x, (2, 2), factor=2), *made.parts(x, Focus(places=YOLO[1:]))), 8, PADDED)


def _of_pixels_beside_the_map(made: Made) -> None:
    x = made.input(3, 8, 12)
    first = made.pixels(made.pixels(x, (1, 0), (1, 1), (8, 12)), (-1, 0), (2, 2), (4, 6))  # its first row is no row of the map
    made.conv(made.concat(first, *made.parts(x, Focus(places=YOLO[1:]))), 8, PADDED)


STAYS = {
    "of other values": _of_other_values,
    "of pixels beside the map": _of_pixels_beside_the_map,
    "input read twice": _input_read_twice,
    "pixels read twice": _pixels_read_twice,
    "focus read twice": _focus_read_twice,
    "of a layer": _of_a_layer,
    "at several scales": _at_several_scales,
    "of a part of the map": _of_a_part,
    "a place missing": lambda made: made.whole(Focus(places=YOLO[:3])),
    "a place twice": lambda made: made.whole(Focus(places=(*YOLO[:3], YOLO[0]))),
    "a place beside the block": lambda made: made.whole(Focus(places=(*YOLO[:3], (-1, 1)))),
    "grouped": lambda made: made.whole(Focus(groups=2)),
    "dilated": lambda made: made.whole(Focus(window=replace(PADDED, dilation=(2, 2), pads=(2, 2, 2, 2)))),
    "many channels": lambda made: made.whole(Focus(channels=MOST_CHANNELS + 1)),
    "too wide": lambda made: made.whole(
        Focus((1, 2), YOLO[:3:2], Window((1, MOST_TAPS // 2 + 1), pads=(0, 8, 0, 8)), size=(2, 40))
    ),
    "too far apart": lambda made: made.whole(Focus(window=Window((1, 1), (MOST_TAPS // 2 + 1,) * 2))),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """Another reader would miss its pixels, the sum would have other terms, or the array would have more work than before."""
    made = builder()
    STAYS[name](made)
    assert left_alone(fuse_focus, made.graph())


@pytest.mark.parametrize("output", ["t1", "t5"])
def test_stays_if_a_part_is_an_output(output):
    """The graph would no longer make that output."""
    made = builder()
    _, _, y = made.whole(Focus())
    assert left_alone(fuse_focus, made.graph(output, y))


def test_has_a_window_over_pixels():
    """The convolution of the image is that of the paper: 6x6 with stride 2 and two pixels of padding."""
    (conv,) = fuse_focus(graph_of(Focus())).nodes
    assert isinstance(conv.op, Conv)
    assert conv.op.window == Window((6, 6), (2, 2), pads=(2, 2, 2, 2))
