"""Makes a model repository for Triton's Python backend of a .cnna or of a repository of cnna.

    .venv/bin/python examples/triton_backend/repository.py digits.cnna -o triton/ --boards left=paced right=paced --instances 2

    triton/digits/config.pbtxt                   names, types and shapes, from the artifact
    triton/digits/1/model.py                     what Triton runs
    triton/digits/1/repository/digits/1/*.cnna   what the engine inside it serves

Versions are those that model.yaml asks for. Start it with `tritonserver --model-repository=triton/`.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from cnna.serve.boards.board_spec import board_specs
from cnna.serve.models.repository import Repository, open_repository
from cnna.serve.models.settings import FILE as SETTINGS
from cnna.serve.models.signature import Signature, Tensor
from cnna.serve.protocol.tensors import BYTES, name_of
from cnna.spec.errors import CnnaError, UserError
from cnna.spec.files import make_folder, write_text

MODEL = Path(__file__).with_name("model.py")


def main(words: Sequence[str] | None = None) -> int:
    """Writes the folder. 2: something that the user gave cannot be used; a line says what."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, help="a .cnna, or a repository of cnna")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the new repository")
    parser.add_argument("--boards", nargs="+", default=["emulator=emulator"], help="as --board of cnna serve")
    parser.add_argument("--instances", type=int, default=1, help="processes among which Triton shares the boards")
    parser.add_argument("--pictures", action="store_true", help="take uint8 pictures, for models that store their preprocessing")
    args = parser.parse_args(words)
    try:
        board_specs(args.boards)
        if not 1 <= args.instances <= len(args.boards):
            raise UserError(f"--instances {args.instances}: must be within 1..{len(args.boards)}, the number of boards")
        found = open_repository(args.models)
        for folder in written(found, args.output, args.boards, args.instances, args.pictures):
            print(folder)
    except CnnaError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def written(source: Repository, root: Path, boards: Sequence[str], instances: int, pictures: bool) -> list[Path]:
    """Writes all models, or none; returns their folders. UserError: Triton cannot serve one so, or its folder is there already."""
    chosen = [(name, *_checked(source, name, root / name, pictures)) for name in source.models()]
    folders = [root / name for name, *_ in chosen]
    try:
        for folder, (name, versions, signature, most) in zip(folders, chosen, strict=True):
            for version in versions:
                copied(source, name, version, folder / version)
            text = config(name, signature, versions, most, boards, instances, pictures)
            write_text(folder / "config.pbtxt", text)
    except BaseException:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return folders


def _checked(source: Repository, name: str, folder: Path, pictures: bool) -> tuple[Sequence[str], Signature, int]:
    """A model's versions, what they take and give, and the most samples of a request."""
    if folder.exists():
        raise UserError(f"{folder}: is there already; remove it, or give another folder to -o")
    if source.has_pipeline(name):
        raise UserError(f"{source.root / name}: a pipeline; Triton's own ensembles join models, so publish its steps alone")
    settings = source.settings(name)
    versions = settings.chosen(source.versions(name))
    if not versions:
        raise UserError(source.why_no_versions(name))
    signatures = {version: source.version(name, version).signature for version in versions}
    signature = signatures[versions[-1]]
    for version, other in signatures.items():
        if other != signature:
            raise UserError(
                f"{source.root / name}: versions {version} and {versions[-1]} take or give other tensors; serve one of them"
            )
    if pictures and not (signature.pictures and len(signature.inputs) == 1 and len(signature.inputs[0].shape) == 3):
        raise UserError(f"--pictures: model {name} stores no preprocessing of pictures; leave the option out")
    return versions, signature, settings.max_request_samples


def copied(source: Repository, name: str, version: str, folder: Path) -> None:
    """A version's folder: the engine's own repository, and model.py beside it."""
    inner = folder / "repository" / name
    make_folder(inner)
    if source.single is None:
        shutil.copytree(source.root / name / version, inner / version)
        if (source.root / name / SETTINGS).is_file():
            shutil.copy(source.root / name / SETTINGS, inner)
    else:
        make_folder(inner / version)
        shutil.copy(source.root, inner / version)
    shutil.copy(MODEL, folder)


def config(
    name: str, signature: Signature, versions: Sequence[str], most: int, boards: Sequence[str], instances: int, pictures: bool
) -> str:
    """config.pbtxt. There is no `dynamic_batching`, since the engine makes the batches."""
    lines = [f"name: {quoted(name)}", 'backend: "python"', f"max_batch_size: {most}"]
    lines += [tensor("input", one, pictures) for one in signature.inputs]
    lines += [tensor("output", one) for one in signature.outputs]
    lines.append(f"instance_group {{ kind: KIND_CPU count: {instances} }}")
    lines.append(f"version_policy {{ specific {{ versions: [{', '.join(versions)}] }} }}")
    lines.append(f'parameters {{ key: "boards" value {{ string_value: {quoted(" ".join(boards))} }} }}')
    return "\n".join(lines) + "\n"


def tensor(kind: str, one: Tensor, pictures: bool = False) -> str:
    """An input or output; the samples' axis is Triton's. A value for each sample needs a reshape, since dims are never empty."""
    found, dims = name_of(one.dtype), one.served_shape[1:]
    if pictures:
        found, dims = "UINT8", [*dims[1:], dims[0]]
    data_type = "STRING" if found == BYTES else found
    reshape = "" if dims else " reshape { shape: [] }"
    return f"{kind} {{ name: {quoted(one.name)} data_type: TYPE_{data_type} dims: [{', '.join(map(str, dims or [1]))}]{reshape} }}"


def quoted(text: str) -> str:
    """A string of protobuf's text format: bytes that are not plain are octal."""
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}" for byte in text.encode())
    return f'"{"".join(plain)}"'


if __name__ == "__main__":
    sys.exit(main())
