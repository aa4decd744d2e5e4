"""A package of the kind `image`: what `podman build` and `docker build` make a container of, and what Kubernetes runs it by.

Monolithic, the image has the models; model-independent, it has the engine alone and takes them from a volume at /mnt/models. It
runs as nobody, on a root that is read-only.
"""

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from cnna.serve.boards.board_spec import BoardSpec
from cnna.serve.packages.boards_text import boards_of, boards_text, check_overlays, overlays_into
from cnna.serve.packages.contents import Contents, copy_models, filling
from cnna.serve.packages.kubernetes import manifests
from cnna.serve.packages.sbom import sbom_text
from cnna.serve.packages.wheels import Wheel, wheels_of
from cnna.spec.errors import UserError
from cnna.spec.files import make_folder, write_text

OWN = Path(__file__).parent / "image_files"
BASE, TAG, BOARD = "docker.io/library/python:3.11-slim-bookworm", "cnna:latest", "emulator=emulator"
NAMES = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/@:-]{0,254}")  # of images
INSIDE = "/mnt/models"


@dataclass(frozen=True)
class Image:
    """What was made. folder: the context."""

    folder: Path
    models: tuple[str, ...]
    independent: bool


def make_image(
    contents: Contents,
    output: Path,
    wheels: Path | None,
    boards: Sequence[str] = (),
    base: str = BASE,
    tag: str = TAG,
    independent: bool = False,
) -> Image:
    """Writes the context into a folder that does not exist, or is empty. UserError: an argument does not fit."""
    for option, name in (("--base", base), ("--tag", tag)):
        if not NAMES.fullmatch(name):
            raise UserError(f"{option} {name}: is no name of an image, such as {BASE}")
    found, specs = wheels_of(wheels), boards_of(boards, BOARD)
    if local := next((spec for spec in specs if spec.kind == "pynq" and not spec.address), None):
        raise UserError(
            f"--board {local.name}=pynq: a container has no board of its own; name one by pynq:ADDRESS, or use --as service"
        )
    check_overlays(specs)
    with filling(output, contents):
        _fill(output, contents, found, specs, {"TAG": tag, "BASE": base, "VERSION": version("cnna")}, independent)
    return Image(output, tuple(contents.names()), independent)


def _fill(
    output: Path,
    contents: Contents,
    wheels: Sequence[Wheel],
    specs: Sequence[BoardSpec],
    values: Mapping[str, str],
    independent: bool,
) -> None:
    """Writes the context. values: of the Dockerfile."""
    (output / "wheels").mkdir()
    for wheel in wheels:
        shutil.copy(wheel.path, output / "wheels")
    if not independent:
        copy_models(contents, output / "models")
    placed = overlays_into(specs, output / "overlays", "/usr/lib/cnna/overlays")
    copied = [] if independent else [f"COPY models {INSIDE}"]
    copied += ["COPY overlays /usr/lib/cnna/overlays"] if placed != specs else []
    write_text(output / "boards.yaml", boards_text(placed))
    write_text(output / "sbom.cdx.json", sbom_text(wheels, None if independent else output / "models"))
    shutil.copyfile(OWN / "health.py", output / "health.py")
    text = (OWN / "Dockerfile").read_text()
    for name, value in {**values, "MODELS": "\n".join(copied)}.items():
        text = text.replace(f"@{name}@", value)
    write_text(output / "Dockerfile", text)
    make_folder(output / "kubernetes")
    for name, text in manifests(values["TAG"], independent).items():
        write_text(output / "kubernetes" / name, text)
