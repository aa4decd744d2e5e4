"""The rows of docs/performance.md: networks, batches, memories and array sizes, with their floors and the peer for comparison.

A row's key is NETWORK/bBATCH, followed by /32B where the DDR moves 32 bytes a clock instead of 48, by /pixN for an array of
another size, by /x2 for the array at two clocks, or by /codes for fully connected layers in weights of 4 bits. /stream comes
last, for runs that follow each other without the host.
"""

import fnmatch
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from cnna.spec.ddr import PLANNED

Floor = tuple[float | None, float | None]  # least frames a second, least utilisation of the array; None: no floor
PLANNED_BYTES, SLOW_BYTES = PLANNED.bytes_per_cycle, 32  # of DDR traffic a clock
BATCHES = (1, 4)
FLOORS: dict[str, tuple[Floor, Floor]] = {  # for batch 1 and batch 4
    "resnet50": ((241, 0.80), (278, 0.92)),
    "vgg19": ((38, 0.61), (51, 0.81)),
    "squeezenet": ((2300, 0.65), (2500, 0.71)),
    "densenet121": ((350, 0.81), (370, 0.85)),
    "inception_v1": ((640, 0.75), (730, 0.85)),
    "inception_v2": ((470, 0.77), (530, 0.87)),
    "mobilenet_v1": ((1560, None), (1570, None)),
    "mobilenet_v2": ((1500, None), (1730, None)),
    "efficientnet_lite0": ((1450, None), (1700, None)),
    "yolov3": ((33, None), (None, None)),
}


class Detected(NamedTuple):
    """How a detector's heads are found. floor, deep_floor: least pictures a second from picture to boxes, and at DEEP. drawn: its
    candidates are areas that were drawn in its map before the host's work was counted.
    """

    how: str
    floor: int
    deep_floor: int | None = None
    labels: int = 80
    bins: int = 1
    drawn: bool = False


DEEP = "zcu102x2"  # the array at two clocks
DEEP_FLOORS: dict[str, tuple[int | None, int | None]] = {  # frames a second at DEEP, for batch 1 and batch 4
    "resnet50": (355, 485),
    "squeezenet": (3150, None),
    "densenet121": (610, None),
    "inception_v1": (1065, None),
    "inception_v2": (775, None),
    "mobilenet_v1": (1810, None),
    "mobilenet_v2": (1580, None),
    "vgg19": (55, 86),
    "resnet18": (755, 1100),
    "yolov3": (58, None),
    "resnet34": (428, None),  # from here on 96 % of what the predictor said before they ran
    "resnet101": (226, None),
    "alexnet": (218, None),
    "efficientnet_lite0": (1221, None),
}
CODED = "zcu102,codebook=1"
CODED_FLOORS = {"alexnet": 378, "vgg19": 46.5}  # frames a second at CODED and batch 1, with weights of 4 bits
VARIED = (  # newer classifiers, detectors and maps, at PLANNED_BYTES alone; the CPU computes what the accelerator lacks
    *("mobilenet_v3_large", "efficientnet_b0", "efficientnet_lite0", "regnetx_400mf", "yolov3", "yolov5n", "yolov8n", "yolox_tiny"),
    *("dbnet", "unet", "espcn"),
)
NETWORKS = (*(name for name in FLOORS if name not in VARIED), "resnet18", "resnet34", "resnet101", "alexnet")
EXTRA = ("digits",)  # only if a pattern names it
SLOW_MEASURED = ("resnet50", "vgg19", "mobilenet_v2")  # simulated at SLOW_BYTES too; the others are predicted
HOST_PATHS = ("numpy", "native", "cached")  # ways through the host, in the order in which they became quicker
BOXES = "boxes"  # the way of a detector through `cnna.Detector`, with cached memory
OWN = "own"  # that of its own outputs through a session, with cached memory: its file knows the heads
DETECTORS = {
    "yolov3": Detected("yolov3", 35, 64),
    "yolov5n": Detected("auto", 370),
    "yolov8n": Detected("auto", 200, bins=16),
    "yolox_tiny": Detected("auto", 120),
    "dbnet": Detected("auto", 140, labels=1, drawn=True),
}
WHY_BOXES: dict[str, str] = {}  # row: why it misses its floor to boxes
PIX = {4: "zcu102,pix=4,bank_words=4096", 16: "zcu102,pix=16,bank_words=1024"}  # feature memory of 2 MiB as at 8
SCALED = "resnet50"
VARIED_SHARE = 0.96  # of the predicted frames a second: the floor of VARIED's rows that have none of their own
STREAMED = ("squeezenet", "mobilenet_v2", "resnet50", "yolov8n")  # in rows of streams
WHY = {  # row: why it misses a floor, as measured
    "efficientnet_lite0/b1": (
        "From block 11 on its 4.1 MB of weights bound it. Before that the array waits 13 % of the clocks for the vector engine, "
        "whose 5x5 windows take ten clocks a group, and 12 % for the writes of its own results, as 16 to 40 input channels are few."
    ),
}
LAYER_CLOCKS, LAYER_SHARE = 1000, 0.10  # a layer of more clocks is to be predicted within this share
MISJUDGED: dict[str, tuple[str, ...]] = {  # row: layers that are not. A test fails for others, and for those that became right
    # Since the predictor divides DDR port by port: its loads share ports with the rings while the vector engine reads.
    "dbnet/b4": ("block0.depthwise",),
}


@dataclass(frozen=True)
class Row:
    """What to run. `simulated`: on the RTL too; otherwise the row is only predicted. deep: at DEEP.

    coded: at CODED, with weights of 4 bits. stream: runs in the queue, one behind the other (`bench_stream.py`).
    """

    network: str
    batch: int
    ddr_bytes: int = PLANNED_BYTES
    pix: int | None = None
    simulated: bool = True
    deep: bool = False
    coded: bool = False
    stream: bool = False

    @property
    def key(self) -> str:
        """The row's name in the files and in `ROWS=`."""
        other = f"/{self.ddr_bytes}B" if self.ddr_bytes != PLANNED_BYTES else f"/pix{self.pix}" if self.pix else ""
        other += "/x2" if self.deep else "/codes" if self.coded else ""
        other += "/stream" if self.stream else ""
        return f"{self.network}/b{self.batch}{other}"

    @property
    def alone(self) -> "Row":
        """The row of one run alone."""
        return replace(self, stream=False)

    @property
    def config(self) -> str | None:
        """The configuration of the row; None: the default."""
        return PIX[self.pix] if self.pix else DEEP if self.deep else CODED if self.coded else None

    @property
    def floor(self) -> Floor:
        """The row's floors."""
        if self.deep:
            return DEEP_FLOORS.get(self.network, (None, None))[self.batch != 1], None
        if self.coded:
            return CODED_FLOORS[self.network], None
        known = self.network in FLOORS and self.ddr_bytes == PLANNED_BYTES and not self.pix
        return FLOORS[self.network][self.batch != 1] if known else (None, None)


def misjudged(layers: Sequence[tuple[str, float, float | None]]) -> list[str]:
    """The names of the layers that are predicted worse than LAYER_SHARE. layers: name, predicted clocks, measured clocks."""
    far = [name for name, guess, clocks in layers if clocks and clocks > LAYER_CLOCKS and abs(guess / clocks - 1) > LAYER_SHARE]
    return list(dict.fromkeys(far))


def rows() -> list[Row]:
    """All rows, the most important first."""
    found = [Row(network, 1) for network in NETWORKS]
    found += [Row(SCALED, 1, pix=pix) for pix in PIX]
    found += [Row(network, 1, SLOW_BYTES, simulated=network in SLOW_MEASURED) for network in NETWORKS]
    found += [Row(network, 4) for network in NETWORKS]
    found += [Row(network, batch) for batch in BATCHES for network in VARIED]
    found += [Row(network, batch, deep=True) for batch in BATCHES for network in DEEP_FLOORS]
    found += [Row(network, 1, coded=True) for network in CODED_FLOORS]
    return [*found, *(Row(network, 4, SLOW_BYTES, simulated=False) for network in NETWORKS)]


def streams() -> list[Row]:
    """The rows of streams."""
    return [*(Row(network, 1, stream=True) for network in STREAMED), Row(SCALED, 1, deep=True, stream=True)]


def chosen(patterns: Sequence[str], streamed: bool = False) -> Iterator[Row]:
    """The rows that match a shell pattern; all, if there are no patterns. A row that is named in full is simulated.

    streamed: those of streams too.
    """
    extra = [Row(network, batch) for network in EXTRA for batch in BATCHES] if patterns else []
    for row in [*rows(), *(streams() if streamed else []), *extra]:
        if row.key in patterns:
            yield replace(row, simulated=True)
        elif not patterns or any(fnmatch.fnmatchcase(row.key, pattern) for pattern in patterns):
            yield row
