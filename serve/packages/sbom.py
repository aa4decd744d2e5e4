"""A software bill of materials in CycloneDX 1.6: the wheels of a package, and the models with the digests of their files."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cnna.serve.packages.wheels import OWN, Wheel


def sbom_text(wheels: Sequence[Wheel], models: Path | None) -> str:
    """JSON. models: the repository that the package carries; None: none. It has no date, so that equal input gives equal bytes."""
    own = next(wheel for wheel in wheels if wheel.name == OWN)
    parts = [_wheel(wheel) for wheel in wheels if wheel is not own]
    if models is not None:
        parts += [_file(models, path) for path in sorted(models.rglob("*")) if path.is_file()]
    reference = f"pkg:pypi/{own.name}@{own.version}"
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _wheel(own)},
        "components": parts,
        "dependencies": [{"ref": reference, "dependsOn": [part["bom-ref"] for part in parts]}],
    }
    return json.dumps(bill, indent=1) + "\n"


def _wheel(wheel: Wheel) -> dict[str, Any]:
    reference = f"pkg:pypi/{wheel.name}@{wheel.version}"
    found = {"type": "application" if wheel.name == OWN else "library", "name": wheel.name, "version": wheel.version}
    licence = {"licenses": [{"license": {"name": wheel.licence}}]} if wheel.licence else {}
    return found | {"bom-ref": reference, "purl": reference, "hashes": _hashes(wheel.sha256)} | licence


def _file(root: Path, path: Path) -> dict[str, Any]:
    """A file of a model. A .cnna or .onnx is a model itself."""
    name = str(path.relative_to(root))
    kind = "machine-learning-model" if path.suffix in (".cnna", ".onnx") else "data"
    return {
        "type": kind,
        "name": name,
        "bom-ref": f"model:{name}",
        "hashes": _hashes(hashlib.sha256(path.read_bytes()).hexdigest()),
    }


def _hashes(sha256: str) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": sha256}]
