"""Small classifiers in PyTorch with random weights; each has the typical blocks of one family of published networks.

`networks` lists them.
"""

import torch
import torch.nn.functional as f
from torch import Tensor, nn


def conv(cin: int, cout: int, k: int = 3, s: int = 1, g: int = 1, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """A convolution, batch norm and activation."""
    return nn.Sequential(nn.Conv2d(cin, cout, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(cout), act())


class Residual(nn.Module):
    """ResNet: two blocks, of which the second halves the map."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.pool = conv(3, 16, 7, 2), nn.MaxPool2d(3, 2, 1)
        self.one = nn.Sequential(conv(16, 16), conv(16, 16, act=nn.Identity))
        self.two = nn.Sequential(conv(16, 32, s=2), conv(32, 32, act=nn.Identity))
        self.around, self.fc = conv(16, 32, 1, 2, act=nn.Identity), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = self.pool(self.stem(x))
        x = torch.relu(self.one(x) + x)
        x = torch.relu(self.two(x) + self.around(x))
        return self.fc(torch.flatten(f.adaptive_avg_pool2d(x, 1), 1))


class Inverted(nn.Module):
    """MobileNetV3 (`act` Hardswish, `gate` Hardsigmoid) or EfficientNet (SiLU, Sigmoid): a block with squeeze-and-excite."""

    def __init__(self, act: type[nn.Module], gate: type[nn.Module]) -> None:
        super().__init__()
        self.stem, self.fc = conv(3, 16, s=2, act=act), nn.Linear(16, 10)
        self.expand, self.deep = conv(16, 48, 1, act=act), conv(48, 48, 5, g=48, act=act)
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(48, 12, 1), nn.ReLU(), nn.Conv2d(12, 48, 1), gate())
        self.project = conv(48, 16, 1, act=nn.Identity)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = self.stem(x)
        y = self.deep(self.expand(x))
        x = x + self.project(y * self.gate(y))
        return self.fc(x.mean((2, 3)))


class Dense(nn.Module):
    """DenseNet: norms before convolutions, and a transition."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv(3, 16, s=2)
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, 16, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 3, 1, 1)
            )
            for c in (16, 24, 32)
        )
        self.end = nn.Sequential(nn.BatchNorm2d(40), nn.ReLU(), nn.Conv2d(40, 20, 1), nn.AvgPool2d(2), nn.ReLU())
        self.fc = nn.Linear(20, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = self.stem(x)
        for layer in self.layers:
            x = torch.cat((x, layer(x)), 1)
        return self.fc(torch.flatten(f.adaptive_avg_pool2d(self.end(x), (1, 1)), 1))


class Inception(nn.Module):
    """Inception: four branches with different kernels, concatenated."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv(3, 16, s=2)
        self.ways = nn.ModuleList(
            (
                conv(16, 8, 1),
                nn.Sequential(conv(16, 8, 1), conv(8, 12, 3)),
                nn.Sequential(conv(16, 4, 1), conv(4, 8, 5)),
                nn.Sequential(nn.AvgPool2d(3, 1, 1), conv(16, 8, 1)),
            )
        )
        self.drop, self.fc = nn.Dropout(), nn.Linear(36, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Probabilities."""
        x = self.stem(x)
        x = torch.cat([way(x) for way in self.ways], 1)
        x = f.max_pool2d(x, 3, 2, ceil_mode=True)
        return self.fc(self.drop(x.mean((2, 3), keepdim=True).flatten(1))).softmax(-1)


class Shuffle(nn.Module):
    """ShuffleNetV2: one half of the channels stays as it is, then all are shuffled."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.fc = conv(3, 16, s=2), nn.Linear(16, 10)
        self.body = nn.Sequential(conv(8, 8, 1), conv(8, 8, g=8, act=nn.Identity), conv(8, 8, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = self.stem(x)
        for _ in range(2):
            still, moved = x.chunk(2, dim=1)
            x = torch.cat((still, self.body(moved)), dim=1)
            batch, channels, rows, columns = x.shape
            x = x.view(batch, 2, channels // 2, rows, columns).transpose(1, 2).contiguous().view(batch, channels, rows, columns)
        return self.fc(x.mean([2, 3]))


class ConvNext(nn.Module):
    """ConvNeXt: a stem of patches, and a block with layer norm and GELU, channels last."""

    def __init__(self, c: int = 16) -> None:
        super().__init__()
        self.stem, self.deep = nn.Conv2d(3, c, 4, 4), nn.Conv2d(c, c, 7, 1, 3, groups=c)
        self.norm, self.wide, self.narrow = nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
        self.scale, self.fc = nn.Parameter(torch.rand(c)), nn.Linear(c, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = self.stem(x)
        y = self.norm(self.deep(x).permute(0, 2, 3, 1))
        y = self.scale * self.narrow(f.gelu(self.wide(y)))
        x = x + y.permute(0, 3, 1, 2)
        return self.fc(x.mean((-2, -1)))


class Crnn(nn.Module):
    """CRNN, which reads a line of text: convolutions, a bidirectional recurrent layer over the columns, a class for each column."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(conv(1, 8), nn.MaxPool2d(2), conv(8, 16), nn.MaxPool2d(2), conv(16, 24), nn.MaxPool2d((2, 1)), conv(24, 24)),
            nn.MaxPool2d((2, 1)),
        )
        self.recurrent, self.fc = nn.LSTM(24, 12, bidirectional=True), nn.Linear(24, 11)

    def forward(self, x: Tensor) -> Tensor:
        """Scores, [columns, 1, classes]."""
        y, _ = self.recurrent(self.body(x).squeeze(2).permute(2, 0, 1))
        return self.fc(y).log_softmax(2)
