"""Trains a pruned network towards the whole one on a user's own data: distillation, with labels where there are any.

Every tenth sample is for judging alone. The network of the epoch that is nearest on these is taken, the pruned one among them, so
by this measure nothing gets worse. Each epoch ends with a checkpoint, from which the same call goes on, to the same network.
"""

import io
import math
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import ModelProto

from cnna.pruning.families import Tell
from cnna.pruning.journal import digest
from cnna.pruning.torch_graph import TorchGraph
from cnna.spec.errors import DataError, UserError
from cnna.spec.files import read_bytes, write_bytes

Tensors: TypeAlias = Mapping[str, torch.Tensor]  # by the names of inputs or outputs
Augment = Callable[[Tensors, torch.Generator], Tensors]  # other samples of the same classes
Loss = Callable[[Tensors, Tensors, torch.Tensor | None], torch.Tensor]  # of ours, the whole network's, and the right classes
HELD_OUT = 10
FEWEST = 2 * HELD_OUT  # samples
LABELS_COUNT = 0.3  # how much the right classes count beside the whole network's answers
SMALLEST = 1e-12
PICTURES, HALF, MOVED = 4, 0.5, 10  # axes of pictures; of samples, how many are varied; a tenth of a picture


@dataclass(frozen=True)
class Tuning:
    """How to train. rate: of Adam, which falls to 0 as a cosine does; batch: samples of a step; inside: whether all layers that
    kept their channels are to make what they make in the whole network, and not the outputs alone.
    """

    epochs: int = 20
    rate: float = 2e-3
    batch: int = 32
    seed: int = 7
    inside: bool = False

    @classmethod
    def without_classes(cls, epochs: int) -> "Tuning":
        """For few samples, whose classes are not known: the outputs alone would be learned by heart."""
        return cls(epochs, rate=1e-3, batch=16, inside=True)


@dataclass(frozen=True, eq=False)
class Samples:
    """What is trained on: inputs by name, each [samples, ...], and the right classes, or None."""

    inputs: Mapping[str, NDArray[Any]]
    classes: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(next(iter(self.inputs.values())))

    @property
    def first(self) -> dict[str, NDArray[Any]]:
        """One sample."""
        return {key: value[:1] for key, value in self.inputs.items()}


def varied(feeds: Tensors, generator: torch.Generator) -> Tensors:
    """Pictures mirrored, moved by up to a tenth, and half of them mixed with others; the whole network answers these too.

    What is no batch of pictures stays as it is.
    """
    if any(x.ndim != PICTURES or not x.is_floating_point() for x in feeds.values()):
        return feeds
    count = len(next(iter(feeds.values())))
    mirrored = bool(torch.rand((), generator=generator) < HALF)
    moves = torch.rand(2, generator=generator) * 2 - 1
    others, share = torch.randperm(count, generator=generator), torch.rand(count, 1, 1, 1, generator=generator)
    share = torch.where(torch.rand(count, 1, 1, 1, generator=generator) < HALF, torch.ones(()), share)
    found = {}
    for name, x in feeds.items():
        down, right = (int(one * size / MOVED) for one, size in zip(moves.tolist(), x.shape[2:], strict=True))
        edges = (max(right, 0), max(-right, 0), max(down, 0), max(-down, 0))
        wide = torch.nn.functional.pad(x.flip(-1) if mirrored else x, edges, mode="replicate")
        moved = wide[:, :, edges[3] : edges[3] + x.shape[2], edges[1] : edges[1] + x.shape[3]]
        found[name] = share * moved + (1 - share) * moved[others]
    return found


def distance(ours: Tensors, theirs: Tensors, classes: torch.Tensor | None) -> torch.Tensor:
    """Squared differences as a share of what the whole network's answers vary, and cross entropy where the classes are known."""
    shares = [
        torch.square(ours[one] - want).sum() / (want - want.mean()).square().sum().clamp(min=SMALLEST)
        for one, want in theirs.items()
    ]
    found = torch.stack(shares).mean()
    if classes is not None:
        scores = next(iter(ours.values()))
        found = found + LABELS_COUNT * torch.nn.functional.cross_entropy(scores.reshape(len(scores), -1), classes)
    return found


def teacher_of(whole: ModelProto, name: str, samples: Samples) -> TorchGraph:
    """The whole network as a module. ModelError: it cannot be trained here. DataError: samples are too few, or labels do not fit.

    Call it before long work too.
    """
    if len(samples) < FEWEST:
        few = f"fine-tuning needs {FEWEST} samples or more (every {HELD_OUT}th is held out); there are {len(samples)}"
        raise DataError(f"{name}: {few}")
    found = TorchGraph(whole, name)
    answers = found.checked(samples.first)
    if samples.classes is not None:
        made = next(iter(answers.values())).numel()
        if not 0 <= int(samples.classes.min()) <= int(samples.classes.max()) < made:
            raise DataError(
                f"{name}: labels of the samples to fine-tune on must lie within 0..{made - 1}, the classes of its first output"
            )
    return found


class Trainer:
    """One run of training. UserError: the checkpoint is of another run. DataError: samples are too few, or labels do not fit."""

    def __init__(
        self,
        pruned: ModelProto,
        whole: ModelProto,
        name: str,
        samples: Samples,
        tuning: Tuning,
        loss: Loss,
        augment: Augment | None,
    ) -> None:
        self.pruned, self.samples, self.tuning, self.loss, self.augment = pruned, samples, tuning, loss, augment
        self.teacher, self.net = teacher_of(whole, name, samples), TorchGraph(pruned, name)
        self.net.checked(samples.first)
        self._inputs = {key: torch.from_numpy(np.ascontiguousarray(value)) for key, value in samples.inputs.items()}
        self._classes = None if samples.classes is None else torch.from_numpy(samples.classes)
        self._alone = self._fixed_batch()
        self.optimiser = torch.optim.Adam(self.net.parameters(), tuning.rate)
        self.inside = self._alike_inside() if tuning.inside else []
        self.epoch, self.best, self.taken = 0, self._judged(), self._weights()

    @torch.no_grad()
    def _alike_inside(self) -> list[str]:
        """What layers of both networks make in the same form."""
        first = {key: value[:1] for key, value in self._inputs.items()}
        both = [net(first, net.inside()) for net in (self.net, self.teacher)]
        return [name for name in self.net.inside() if name in both[1] and both[0][name].shape == both[1][name].shape]

    def _fixed_batch(self) -> bool:
        """Whether the model takes one sample at a time."""
        return any(
            value.type.tensor_type.shape.dim[0].dim_value == 1 for value in self.pruned.graph.input if value.name in self._inputs
        )

    def _of(self, places: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
        feeds: Tensors = {key: value[places] for key, value in self._inputs.items()}
        if generator is not None and self.augment is not None:
            feeds = self.augment(feeds, generator)
        with torch.no_grad():
            theirs = self.teacher(feeds, self.inside)
        return self.loss(self.net(feeds, self.inside), theirs, None if self._classes is None else self._classes[places])

    @torch.no_grad()
    def _judged(self) -> float:
        held = torch.arange(0, len(self.samples), HELD_OUT)
        parts = held.split(1 if self._alone else self.tuning.batch)
        return sum(float(self._of(part, None)) * len(part) for part in parts) / len(held)

    def _weights(self) -> list[torch.Tensor]:
        return [one.detach().clone() for one in self.net.parameters()]

    def step(self) -> None:
        """One epoch: the same one whether the epochs before it were run just now or before."""
        generator = torch.Generator().manual_seed(self.tuning.seed * 100_003 + self.epoch)
        places = torch.arange(len(self.samples))
        places = places[places % HELD_OUT != 0]
        batches = places[torch.randperm(len(places), generator=generator)].split(self.tuning.batch)
        for number, batch in enumerate(batches):
            done = (self.epoch + number / len(batches)) / self.tuning.epochs
            for group in self.optimiser.param_groups:
                group["lr"] = self.tuning.rate * 0.5 * (1 + math.cos(math.pi * done))
            self.optimiser.zero_grad()
            for part in batch.split(1 if self._alone else len(batch)):
                (self._of(part, generator) * (len(part) / len(batch))).backward()
            self.optimiser.step()
        self.epoch += 1
        if (judged := self._judged()) < self.best:
            self.best, self.taken = judged, self._weights()

    def state(self) -> dict[str, Any]:
        """All that the next epoch depends on."""
        own = {"epoch": self.epoch, "best": self.best, "taken": self.taken}
        return {**own, "weights": self._weights(), "optimiser": self.optimiser.state_dict()}

    def go_on(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state."""
        self.epoch, self.best, self.taken = state["epoch"], state["best"], state["taken"]
        self._put(state["weights"])
        self.optimiser.load_state_dict(state["optimiser"])

    @torch.no_grad()
    def _put(self, weights: list[torch.Tensor]) -> None:
        for one, value in zip(self.net.parameters(), weights, strict=True):
            one.copy_(value)

    def result(self) -> ModelProto:
        """The model of the best epoch so far."""
        self._put(self.taken)
        return self.net.put(self.pruned)


def fine_tuned(
    pruned: ModelProto,
    whole: ModelProto,
    name: str,
    samples: Samples,
    tuning: Tuning,
    tell: Tell,
    *,
    checkpoint: Path | None = None,
    loss: Loss = distance,
    augment: Augment | None = None,
) -> ModelProto:
    """The pruned network, trained: the same names, inputs and outputs. checkpoint: a file that keeps each epoch; it stays.

    Errors: as of `Trainer`; ModelError: a network has an operator that cannot be trained here.
    """
    trainer = Trainer(pruned, whole, name, samples, tuning, loss, augment)
    models = pruned.SerializeToString(deterministic=True) + whole.SerializeToString(deterministic=True)
    labels = {} if samples.classes is None else {"the classes": samples.classes}
    belongs = digest(models, {**samples.inputs, **labels}, repr(tuning))
    if checkpoint is not None and checkpoint.exists():
        trainer.go_on(_read(checkpoint, belongs))
    while trainer.epoch < tuning.epochs:
        tell(trainer.epoch, tuning.epochs, "fine-tuning")
        trainer.step()
        if checkpoint is not None:
            kept = io.BytesIO()
            torch.save({"of": belongs, **trainer.state()}, kept)
            write_bytes(checkpoint, kept.getvalue())
    tell(tuning.epochs, tuning.epochs, "fine-tuning")
    return trainer.result()


def _read(path: Path, belongs: str) -> Mapping[str, Any]:
    try:
        state: dict[str, Any] = torch.load(io.BytesIO(read_bytes(path)), weights_only=True)
        other = state["of"] != belongs
    except (pickle.UnpicklingError, RuntimeError, KeyError, TypeError, ValueError, EOFError):
        raise UserError(f"{path}: is no checkpoint of fine-tuning; remove it, or name another file with --checkpoint") from None
    if other:
        raise UserError(f"{path}: is of another network, other data or other epochs; remove it, or name another with --checkpoint")
    return state
