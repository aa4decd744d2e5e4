"""Fine-tunes a pruned network on your own data. Change what follows: the samples, how they are varied, and what is wanted.

    cnna models digits -o digits.onnx --calib calib.npz --test test.npz --train train.npz
    cnna prune digits.onnx --calib calib.npz --config tiny --fewer-clocks 45% -o pruned.onnx
    python examples/finetune.py digits.onnx pruned.onnx train.npz -o tuned.onnx

It needs torch: pip install '.[tools,train]'. After Ctrl-C the same command goes on from tuned.onnx.checkpoint. That
file does not know what you change here: remove it then.
"""

import argparse
from pathlib import Path

import numpy as np
import onnx
import torch

from cnna.pruning.finetune import Samples, Tensors, Tuning, distance, fine_tuned


def samples(path: Path) -> Samples:
    """Inputs as the network takes them, by its input's name, and the right classes or None."""
    with np.load(path) as data:
        return Samples({"image": data["x"].astype(np.float32)}, data.get("y"))


def varied(feeds: Tensors, generator: torch.Generator) -> Tensors:
    """The same pictures, moved by up to two pixels: the whole network answers these too, so more is learned from few pictures."""
    down, right = (int(torch.randint(-2, 3, (), generator=generator)) for _ in range(2))
    return {name: torch.roll(x, (down, right), (2, 3)) for name, x in feeds.items()}


def wanted(ours: Tensors, theirs: Tensors, classes: torch.Tensor | None) -> torch.Tensor:
    """What is made small: the distance from the whole network's answers, plus cross entropy where classes are known."""
    return distance(ours, theirs, classes)


def main() -> None:
    """Reads both networks, trains the pruned one and writes it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("whole", type=Path)
    parser.add_argument("pruned", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=20)
    args = parser.parse_args()
    checkpoint = Path(f"{args.output}.checkpoint")
    made = fine_tuned(
        onnx.load(args.pruned),
        onnx.load(args.whole),
        str(args.pruned),
        samples(args.data),
        Tuning(epochs=args.epochs),
        lambda done, total, what: print(f"{what}: {done} of {total}", flush=True),
        checkpoint=checkpoint,
        augment=varied,
        loss=wanted,
    )
    onnx.save(made, args.output)
    checkpoint.unlink()
    print(f"wrote {args.output}")


if __name__ == "__main__":
    main()
