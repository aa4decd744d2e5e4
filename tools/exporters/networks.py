"""Small networks in PyTorch with random weights; each has the typical blocks of one family of published networks.

`NETWORKS` has, by name, the function that makes the module and the shape of its input. tools/exporter_graphs.py exports them. The
classifiers are in `classifiers`; the detectors and the networks that make maps are here.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as f
from torch import Tensor, nn

from exporters.classifiers import ConvNext, Crnn, Dense, Inception, Inverted, Residual, Shuffle, conv


class Bottleneck(nn.Module):
    """YOLO: two convolutions whose input is added to their output."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(c, c, 1, act=nn.SiLU), conv(c, c, act=nn.SiLU))

    def forward(self, x: Tensor) -> Tensor:
        """Returns a map of the shape of x."""
        return x + self.body(x)


class C3(nn.Module):
    """The C3 block of YOLOv5 and YOLOX."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.a, self.b, self.c = (conv(c, n, 1, act=nn.SiLU) for n in (c // 2, c // 2, c))
        self.body = Bottleneck(c // 2)

    def forward(self, x: Tensor) -> Tensor:
        """Returns a map of the shape of x."""
        return self.c(torch.cat((self.body(self.a(x)), self.b(x)), 1))


class C2f(nn.Module):
    """The C2f block of YOLOv8: both halves of a map, and what a bottleneck makes of the second."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.a, self.b = conv(c, c, 1, act=nn.SiLU), conv(c * 3 // 2, c, 1, act=nn.SiLU)
        self.body = Bottleneck(c // 2)

    def forward(self, x: Tensor) -> Tensor:
        """Returns a map of the shape of x."""
        parts = list(self.a(x).chunk(2, 1))
        parts.append(self.body(parts[-1]))
        return self.b(torch.cat(parts, 1))


class Sppf(nn.Module):
    """Spatial pyramid pooling: three max pools of 5x5, one after another."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.a, self.b, self.pool = conv(c, c // 2, 1, act=nn.SiLU), conv(c * 2, c, 1, act=nn.SiLU), nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Returns a map of the shape of x."""
        parts = [self.a(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.b(torch.cat(parts, 1))


def grid(rows: int, columns: int) -> Tensor:
    """The columns and rows of pixels, [rows, columns, 2]."""
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    return torch.stack((x, y), -1).float()


class YoloV5(nn.Module):
    """YOLOv5: C3, SPPF, one upsampling, and two heads that are decoded with anchors."""

    def __init__(self, anchors: int = 3, classes: int = 2) -> None:
        super().__init__()
        self.outputs, self.anchors = classes + 5, anchors
        self.stem = nn.Sequential(conv(3, 8, 6, 2, act=nn.SiLU), conv(8, 16, 3, 2, act=nn.SiLU), C3(16))
        self.deep, self.up = (
            nn.Sequential(conv(16, 32, 3, 2, act=nn.SiLU), Sppf(32), conv(32, 16, 1, act=nn.SiLU)),
            nn.Upsample(None, 2),
        )
        self.join = nn.Sequential(conv(32, 16, 1, act=nn.SiLU), C3(16))
        self.heads = nn.ModuleList(nn.Conv2d(16, anchors * self.outputs, 1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """Boxes, [1, anchors, 4 + 1 + classes]."""
        fine = self.stem(x)
        coarse = self.deep(fine)
        side = self.up(coarse)
        fine = self.join(torch.cat((side[:, :, : fine.shape[2], : fine.shape[3]], fine), 1))
        found = []
        for head, y, stride in zip(self.heads, (fine, coarse), (4, 8), strict=True):
            y = head(y)
            batch, _, rows, columns = y.shape
            y = y.view(batch, self.anchors, self.outputs, rows, columns).permute(0, 1, 3, 4, 2).contiguous().sigmoid()
            xy, wh, rest = y.split((2, 2, self.outputs - 4), 4)
            xy = (xy * 2 + grid(rows, columns) - 0.5) * stride
            wh = (wh * 2) ** 2 * stride
            found.append(torch.cat((xy, wh, rest), 4).view(batch, -1, self.outputs))
        return torch.cat(found, 1)


class YoloV8(nn.Module):
    """YOLOv8: C2f, SPPF, and two heads whose distances are means over a softmax."""

    def __init__(self, bins: int = 8, classes: int = 4) -> None:
        super().__init__()
        self.bins, self.classes = bins, classes
        self.stem = nn.Sequential(conv(3, 8, 3, 2, act=nn.SiLU), conv(8, 16, 3, 2, act=nn.SiLU), C2f(16))
        self.deep = nn.Sequential(conv(16, 32, 3, 2, act=nn.SiLU), Sppf(32), conv(32, 16, 1, act=nn.SiLU))
        self.up, self.join = nn.Upsample(None, 2, "nearest"), nn.Sequential(conv(32, 16, 1, act=nn.SiLU), C2f(16))
        self.boxes = nn.ModuleList(nn.Sequential(conv(16, 16, act=nn.SiLU), nn.Conv2d(16, 4 * bins, 1)) for _ in range(2))
        self.kinds = nn.ModuleList(nn.Sequential(conv(16, 16, act=nn.SiLU), nn.Conv2d(16, classes, 1)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """Boxes and scores, [1, 4 + classes, pixels]."""
        fine = self.stem(x)
        coarse = self.deep(fine)
        fine = self.join(torch.cat((self.up(coarse), fine), 1))
        both = [torch.cat((box(y), kind(y)), 1) for box, kind, y in zip(self.boxes, self.kinds, (fine, coarse), strict=True)]
        places = torch.cat([grid(*y.shape[2:]).view(-1, 2) + 0.5 for y in both]).t()
        strides = torch.cat([torch.full((1, y.shape[2] * y.shape[3]), 4.0 * 2**i) for i, y in enumerate(both)], 1)
        box, kind = torch.cat([y.flatten(2) for y in both], 2).split((4 * self.bins, self.classes), 1)
        far = box.view(1, 4, self.bins, -1).transpose(2, 1).softmax(1)
        low, high = f.conv2d(far, torch.arange(self.bins).float().view(1, -1, 1, 1)).view(1, 4, -1).chunk(2, 1)
        low, high = places - low, places + high
        return torch.cat((torch.cat(((low + high) / 2, high - low), 1) * strides, kind.sigmoid()), 1)


class YoloX(nn.Module):
    """YOLOX: focus, CSP, and a decoupled head whose boxes are decoded with exp."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(12, 16, act=nn.SiLU), conv(16, 32, s=2, act=nn.SiLU), C3(32), Sppf(32))
        self.kind = nn.Sequential(conv(32, 16, act=nn.SiLU), nn.Conv2d(16, classes, 1))
        self.shared = conv(32, 16, act=nn.SiLU)
        self.box, self.there = nn.Conv2d(16, 4, 1), nn.Conv2d(16, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Boxes, [1, pixels, 4 + 1 + classes]."""
        quarters = [x[..., down::2, right::2] for right in (0, 1) for down in (0, 1)]
        y = self.stem(torch.cat(quarters, 1))
        z = self.shared(y)
        whole = torch.cat((self.box(z), self.there(z).sigmoid(), self.kind(y).sigmoid()), 1)
        rows, columns = whole.shape[2:]
        whole = whole.flatten(2).permute(0, 2, 1)
        xy = (whole[..., :2] + grid(rows, columns).view(1, -1, 2)) * 4
        return torch.cat((xy, torch.exp(whole[..., 2:4]) * 4, whole[..., 4:]), -1)


class UNet(nn.Module):
    """U-Net: down twice and up again, by transposed convolutions or by bilinear upsampling."""

    def __init__(self, bilinear: bool) -> None:
        super().__init__()
        self.a, self.b, self.c = conv(3, 8), conv(8, 16), conv(16, 16)
        self.up = nn.ModuleList(
            nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False) if bilinear else nn.ConvTranspose2d(16, 16, 2, 2)
            for _ in range(2)
        )
        self.d, self.e, self.end = conv(32, 16), conv(24, 8), nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        """A map of logits, as large as x."""
        first = self.a(x)
        second = self.b(f.max_pool2d(first, 2))
        y = self.c(f.max_pool2d(second, 2))
        y = self.d(torch.cat((second, self.up[0](y)), 1))
        return self.end(self.e(torch.cat((first, self.up[1](y)), 1)))


class Fpn(nn.Module):
    """A feature pyramid: three maps, each added to the next finer one, and a shared head on all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.downs = nn.ModuleList((conv(3, 8, s=2), conv(8, 16, s=2), conv(16, 24, s=2)))
        self.sides = nn.ModuleList(nn.Conv2d(c, 16, 1) for c in (8, 16, 24))
        self.smooth, self.head = nn.Conv2d(16, 16, 3, 1, 1), nn.Conv2d(16, 4, 3, 1, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """A map of each size."""
        maps = []
        for down in self.downs:
            x = down(x)
            maps.append(x)
        y = self.sides[2](maps[2])
        found = [y]
        for side, z in zip(self.sides[1::-1], maps[1::-1], strict=False):
            y = side(z) + f.interpolate(y, size=z.shape[-2:], mode="nearest")
            found.append(y)
        return tuple(self.head(torch.relu(self.smooth(y))) for y in found)


class Espcn(nn.Module):
    """ESPCN, super-resolution: the last convolution's channels become pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(1, 16, 5, 1, 2), nn.Conv2d(16, 8, 3, 1, 1), nn.Conv2d(8, 9, 3, 1, 1)
        self.shuffle = nn.PixelShuffle(3)

    def forward(self, x: Tensor) -> Tensor:
        """An image three times as wide and high."""
        return self.shuffle(self.c(torch.tanh(self.b(torch.tanh(self.a(x))))))


class Ssd(nn.Module):
    """SSD: heads on two maps of a backbone, concatenated; scores by softmax."""

    def __init__(self, anchors: int = 3, classes: int = 4) -> None:
        super().__init__()
        self.classes = classes
        self.a, self.b = nn.Sequential(conv(3, 8, s=2), conv(8, 16, s=2)), conv(16, 24, s=2)
        self.boxes = nn.ModuleList(nn.Conv2d(c, 4 * anchors, 3, 1, 1) for c in (16, 24))
        self.kinds = nn.ModuleList(nn.Conv2d(c, classes * anchors, 3, 1, 1) for c in (16, 24))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Boxes, [1, anchors, 4], and scores, [1, anchors, classes]."""
        maps = [self.a(x)]
        maps.append(self.b(maps[0]))

        def joined(heads: Sequence[nn.Module], size: int) -> Tensor:
            parts = [head(y).permute(0, 2, 3, 1).reshape(y.shape[0], -1, size) for head, y in zip(heads, maps, strict=True)]
            return torch.cat(parts, 1)

        return joined(self.boxes, 4), joined(self.kinds, self.classes).softmax(-1)


class DbNet(nn.Module):
    """DBNet, a text detector: a backbone with Hardswish, maps upsampled and concatenated, transposed convolutions, a sigmoid."""

    def __init__(self) -> None:
        super().__init__()
        self.downs = nn.ModuleList((conv(3, 8, s=2, act=nn.Hardswish), conv(8, 16, s=2, act=nn.Hardswish), conv(16, 24, s=2)))
        self.sides = nn.ModuleList(nn.Conv2d(c, 16, 1, bias=False) for c in (8, 16, 24))
        self.ends = nn.ModuleList(nn.Conv2d(16, 8, 3, 1, 1, bias=False) for _ in range(3))
        self.head = nn.Sequential(conv(24, 8), nn.ConvTranspose2d(8, 1, 2, 2), nn.Sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        """How likely each pixel is text."""
        maps = []
        for down in self.downs:
            x = down(x)
            maps.append(x)
        fine, middle, coarse = (side(y) for side, y in zip(self.sides, maps, strict=True))
        middle = middle + f.interpolate(coarse, scale_factor=2.0)
        fine = fine + f.interpolate(middle, scale_factor=2.0)
        ends = [end(y) for end, y in zip(self.ends, (fine, middle, coarse), strict=True)]
        return self.head(torch.cat([f.interpolate(y, scale_factor=float(2**i)) for i, y in enumerate(ends)], 1))


IMAGE = (1, 3, 32, 32)
NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "residual": (Residual, IMAGE),
    "mobilenetv3": (lambda: Inverted(nn.Hardswish, nn.Hardsigmoid), IMAGE),
    "efficientnet": (lambda: Inverted(nn.SiLU, nn.Sigmoid), IMAGE),
    "yolov5": (YoloV5, (1, 3, 64, 64)),
    "yolov8": (YoloV8, (1, 3, 64, 64)),
    "yolox": (YoloX, (1, 3, 64, 64)),
    "dense": (Dense, IMAGE),
    "inception": (Inception, IMAGE),
    "shuffle": (Shuffle, IMAGE),
    "unet": (lambda: UNet(False), IMAGE),
    "unet_bilinear": (lambda: UNet(True), IMAGE),
    "fpn": (Fpn, (1, 3, 64, 64)),
    "espcn": (Espcn, (1, 1, 16, 16)),
    "convnext": (ConvNext, IMAGE),
    "crnn": (Crnn, (1, 1, 16, 48)),
    "ssd": (Ssd, (1, 3, 64, 64)),
    "dbnet": (DbNet, (1, 3, 64, 64)),
}
