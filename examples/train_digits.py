"""Trains the demo's network and writes compiler/zoo/digits/digits.onnx. Ten seconds on one core.

    pip install '.[tools,train]' && python examples/train_digits.py

Needs torch, which nothing else here does: the answer is committed.
"""

from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch import nn

from cnna.compiler.zoo.digits import data

OUT = data.NETWORK
SEED, EPOCHS, BATCH, RATE = 7, 40, 64, 3e-3
OPSET, IR_VERSION = 17, 8


class Block(nn.Module):
    """Two 3x3 convolutions and a path around them: the identity, or a 1x1 convolution where the shape changes."""

    def __init__(self, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(cout)
        self.around = nn.Conv2d(cin, cout, 1, stride) if stride > 1 or cin != cout else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(inner + (self.around(x) if self.around else x))


class Network(nn.Module):
    """From [n, 1, 16, 16] to ten logits, with 0.56 million multiply-accumulates for an image."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(1, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        self.block1, self.block2 = Block(16, 16, 1), Block(16, 32, 2)
        self.fc = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.norm(self.stem(x))), 2)
        return self.fc(self.block2(self.block1(x)).mean((2, 3)))


def shifted(images: torch.Tensor) -> torch.Tensor:
    """The images, shifted by up to one pixel of the data set in each direction: this gives more to learn from than 1,297
    pictures.
    """
    down, right = (int(torch.randint(-1, 2, ())) * data.ENLARGED for _ in range(2))
    return torch.roll(images, (down, right), (2, 3))


def train(split: data.Split) -> Network:
    """Adam with a cosine rate over EPOCHS, in one thread, seeded. The same version of torch gives the same network every time."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    network, loss = Network(), nn.CrossEntropyLoss()
    images, classes = torch.from_numpy(split.images), torch.from_numpy(split.classes)
    optimiser = torch.optim.AdamW(network.parameters(), RATE, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, EPOCHS)
    for epoch in range(EPOCHS):
        total = 0.0
        for batch in torch.randperm(len(images)).split(BATCH):
            optimiser.zero_grad()
            error = loss(network(shifted(images[batch])), classes[batch])
            error.backward()
            optimiser.step()
            total += error.item() * len(batch)
        schedule.step()
        print(f"epoch {epoch + 1:2} of {EPOCHS}: loss {total / len(images):.4f}", flush=True)
    return network.eval()


class Writer:
    """Collects ONNX nodes and their weights. Each method adds a node and returns its output's name."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def node(self, op: str, name: str, inputs: list[str], **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def weight(self, name: str, value: torch.Tensor) -> str:
        self.weights.append(numpy_helper.from_array(value.detach().numpy().astype(np.float32), name))
        return name

    def conv(self, name: str, layer: nn.Conv2d, x: str) -> str:
        inputs = [x, self.weight(f"{name}.weight", layer.weight)]
        if layer.bias is not None:
            inputs.append(self.weight(f"{name}.bias", layer.bias))
        (kernel, _), (pad, _), (stride, _) = layer.kernel_size, layer.padding, layer.stride
        return self.node("Conv", name, inputs, kernel_shape=[kernel] * 2, pads=[pad] * 4, strides=[stride] * 2)

    def norm(self, name: str, layer: nn.BatchNorm2d, x: str) -> str:
        statistics = {"scale": layer.weight, "bias": layer.bias, "mean": layer.running_mean, "var": layer.running_var}
        inputs = [x, *(self.weight(f"{name}.{key}", value) for key, value in statistics.items())]
        return self.node("BatchNormalization", name, inputs, epsilon=layer.eps)

    def block(self, name: str, layer: Block, x: str) -> str:
        inner = self.norm(f"{name}.norm1", layer.norm1, self.conv(f"{name}.conv1", layer.conv1, x))
        inner = self.conv(f"{name}.conv2", layer.conv2, self.node("Relu", f"{name}.relu1", [inner]))
        inner = self.norm(f"{name}.norm2", layer.norm2, inner)
        around = self.conv(f"{name}.around", layer.around, x) if layer.around else x
        return self.node("Relu", f"{name}.relu2", [self.node("Add", f"{name}.add", [inner, around])])


def to_onnx(network: Network) -> onnx.ModelProto:
    """The network as PyTorch would export it: BatchNorm and Relu are nodes of their own, and the batch axis is free."""
    writer = Writer()
    x = writer.norm("norm", network.norm, writer.conv("stem", network.stem, "image"))
    x = writer.node("MaxPool", "pool", [writer.node("Relu", "relu", [x])], kernel_shape=[2, 2], strides=[2, 2])
    x = writer.block("block2", network.block2, writer.block("block1", network.block1, x))
    x = writer.node("Flatten", "flatten", [writer.node("GlobalAveragePool", "mean", [x])], axis=1)
    weights = [writer.weight("fc.weight", network.fc.weight), writer.weight("fc.bias", network.fc.bias)]
    writer.nodes.append(helper.make_node("Gemm", [x, *weights], ["logits"], name="fc", transB=1))
    graph = helper.make_graph(
        writer.nodes,
        "digits",
        [helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, ["n", 1, 16, 16])],
        [helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["n", 10])],
        writer.weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="cnna")
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    """Trains the network, tests it and writes the file."""
    digits = data.load()
    network = train(digits.train)
    with torch.no_grad():
        right = network(torch.from_numpy(digits.test.images)).argmax(1).numpy() == digits.test.classes
    OUT.write_bytes(to_onnx(network).SerializeToString())
    print(f"{OUT}: {OUT.stat().st_size:,} bytes, {right.mean():.2%} of {len(right)} test images")


if __name__ == "__main__":
    main()
