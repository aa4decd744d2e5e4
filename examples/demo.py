"""The whole way from a trained network to the accelerator's own answer: `make demo`.

It quantises the digits network with 100 calibration images, compiles it for `tiny`, and runs test images clock by clock on the
generated Verilog. Every tensor that the Verilog writes is compared with the emulator and the integer reference.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from cnna import InferenceSession
from cnna.compiler.compile import compile_model
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.quantise.quantise import quantise
from cnna.compiler.zoo.digits import data
from cnna.spec.artifact import save
from cnna.spec.config import preset
from cnna.spec.errors import CnnaError

HERE = Path(__file__).resolve().parent
FLOAT = data.NETWORK
OUT = HERE.parent / "build" / "demo"
CONFIG, SHOWN, A_ROW = "tiny", 10, 5
EMULATED_BATCH = 25  # images that the emulator takes at once: the same arithmetic in fewer calls

Images = NDArray[np.float32]


def main() -> int:
    """Runs the demo; returns 1 if an execution differs or something fails."""
    try:
        demo()
    except CnnaError as error:
        print(f"demo: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr)
        return 130
    return 0


def demo() -> None:
    """Runs the five steps."""
    digits, config = data.load(), preset(CONFIG)
    OUT.mkdir(parents=True, exist_ok=True)
    float_model = load_model(FLOAT)
    with step(f"quantise with {len(digits.calibration.images)} calibration images"):
        model, _ = quantise(float_model, {"image": digits.calibration.images})
    with step(f"compile it for the accelerator {CONFIG}, {config.macs} multiply-accumulates a clock"):
        artifact = compile_model(model, config)
        save(artifact, OUT / "digits.cnna")
    with step("build the simulator of its Verilog, if it has changed", "the simulator is ready"):
        rtl = InferenceSession(artifact, "rtl", check=True)
    with rtl, step(f"run {SHOWN} test images on it"):
        (logits,) = rtl.run(["logits"], {"image": digits.test.images[:SHOWN]})
        figures, agreement = rtl.last, rtl.agreement
    clocks = SHOWN * figures["cycles"]
    print(f"{clocks:,.0f} clocks simulated and compared, {clocks / figures['wall_seconds']:,.0f} a second")
    show(digits.test.images[:SHOWN], digits.test.classes[:SHOWN], logits.argmax(1))
    table(figures)
    with step(f"classify all {len(digits.test.images)} test images in float and, through the emulator, in int8"):
        in_float = onnxruntime.InferenceSession(FLOAT).run(["logits"], {"image": digits.test.images})[0]
        with InferenceSession(compile_model(model, config, batch=EMULATED_BATCH), "emulator") as emulator:
            (in_int8,) = emulator.run(["logits"], {"image": digits.test.images})
    for name, answer in (("float", in_float), ("int8", in_int8)):
        print(f"{name:5} accuracy {(answer.argmax(1) == digits.test.classes).mean():.2%}")
    print(agreement)


@contextmanager
def step(what: str, then: str = "") -> Iterator[None]:
    """Prints what is being done, and then how long it took.

    The time follows `...` on the same line or, for a step that prints itself, below it, behind the text `then`.
    """
    print(f"{what} ...", end="\n" if then else " ", flush=True)
    started = time.perf_counter()
    yield
    print(f"{f'{then} after ' if then else ''}{time.perf_counter() - started:.1f} s", flush=True)


def show(images: Images, classes: NDArray[np.int64], answers: NDArray[np.int64]) -> None:
    """Prints the pictures in characters, A_ROW beside each other, each with its class and the accelerator's answer."""
    shades = " ░▒▓█" if (sys.stdout.encoding or "").lower().startswith("utf") else " .+#@"
    for first in range(0, len(images), A_ROW):
        part = slice(first, first + A_ROW)
        small = images[part, 0, :: data.ENLARGED, :: data.ENLARGED]
        for row in np.rint(small * (len(shades) - 1)).astype(int).transpose(1, 0, 2):
            print("  ".join("".join(shades[pixel] * 2 for pixel in line) for line in row).rstrip())
        words = [f"is {c}, RTL says {a}" for c, a in zip(classes[part], answers[part], strict=True)]
        print("  ".join(f"{word:^{2 * small.shape[2]}}" for word in words))


def table(figures: dict[str, Any]) -> None:
    """Prints one line for each layer and one for the whole network, for one image."""
    print(f"{'layer':16} {'engine':8} {'MACs':>9} {'clocks':>8} {'utilisation':>11} {'DDR read':>9} {'written':>8}")
    for layer in [*figures["layers"], {**figures, "name": "all", "engine": ""}]:
        used = f"{layer['mac_utilization']:.1%}" if layer["macs"] and layer["mac_utilization"] else "-"
        print(
            f"{layer['name'][:16]:16} {layer['engine']:8} {layer['macs']:9,} {layer['cycles']:8,.0f} {used:>11} "
            f"{layer['ddr_read_bytes']:9,.0f} {layer['ddr_write_bytes']:8,.0f}"
        )


if __name__ == "__main__":
    sys.exit(main())
