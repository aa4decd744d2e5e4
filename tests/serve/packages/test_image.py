"""The context of a container: what is in it, with and without models, and Kubernetes' objects for it."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cnna.cli.main import main
from cnna.serve.boards.boards_file import boards_of
from cnna.serve.packages.image import INSIDE

NOBODY = 65532


def words(context: Path, instruction: str) -> list[str]:
    """What stands behind an instruction of the Dockerfile, with its continued lines."""
    text = (context / "Dockerfile").read_text().replace("\\\n", " ")
    return [line.partition(" ")[2] for line in text.splitlines() if line.startswith(instruction + " ")]


def objects(context: Path) -> Iterator[dict[str, Any]]:
    for path in sorted((context / "kubernetes").iterdir()):
        yield from yaml.safe_load_all(path.read_text())


def containers(context: Path) -> list[dict[str, Any]]:
    """Those of the Deployment and of the ServingRuntime."""
    by_kind = {one["kind"]: one["spec"] for one in objects(context)}
    return [*by_kind["Deployment"]["template"]["spec"]["containers"], *by_kind["ServingRuntime"]["containers"]]


def test_all_that_is_copied_is_there(context: Path) -> None:
    """The build would stop; a placeholder that is left would be no instruction."""
    for line in words(context, "COPY"):
        if not line.startswith("--from"):
            assert all((context / name).exists() for name in line.split()[:-1]), line
    texts = [path.read_text() for path in (context / "Dockerfile", *(context / "kubernetes").iterdir())]
    assert not [line for text in texts for line in text.splitlines() if line.lstrip().startswith("@") or "@TAG@" in line]


def test_it_runs_as_nobody_and_is_asked_for_its_health(context: Path) -> None:
    """A fault of the server would be one of root, and a server that is stuck be sent requests."""
    assert words(context, "USER") == [f"{NOBODY}:{NOBODY}"]
    assert "/etc/cnna/health.py" in words(context, "HEALTHCHECK")[0]
    assert INSIDE in words(context, "ENTRYPOINT")[0]
    compile((context / "health.py").read_text(), "health.py", "exec")
    assert [board.kind for board in boards_of(context / "boards.yaml")] == ["emulator"]


def test_models_are_inside_or_come_from_a_volume(context: Path) -> None:
    """An image would be empty, or hide its own models behind a volume."""
    independent = context.name == "independent"
    assert (context / "models").exists() is not independent
    assert (f"models {INSIDE}" in words(context, "COPY")) is not independent
    mounts = {mount["mountPath"] for mount in containers(context)[0]["volumeMounts"]}
    assert mounts == ({"/tmp", INSIDE} if independent else {"/tmp"})
    (deployment,) = (one for one in objects(context) if one["kind"] == "Deployment")
    volumes = {volume["name"] for volume in deployment["spec"]["template"]["spec"]["volumes"]}
    assert volumes == {mount["name"] for mount in containers(context)[0]["volumeMounts"]}


def test_kubernetes_asks_the_protocols_routes_and_waits_for_the_end(context: Path) -> None:
    """A pod would get requests before it has models, be killed while it loads, or lose those that it has at its end."""
    for one in containers(context):
        assert one["image"] == "registry.example/cnna:1"
        paths = {name: one[name]["httpGet"]["path"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
        live, ready = "/v2/health/live", "/v2/health/ready"
        assert paths == {"startupProbe": ready, "readinessProbe": ready, "livenessProbe": live}
        assert one["securityContext"]["readOnlyRootFilesystem"]
        assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    by_kind = {one["kind"]: one["spec"] for one in objects(context)}
    for pod in (by_kind["Deployment"]["template"]["spec"], by_kind["InferenceService"]["predictor"]):
        assert pod["terminationGracePeriodSeconds"] > 30 + 5  # the server's own grace, and the pause before it
    assert by_kind["Deployment"]["template"]["spec"]["securityContext"]["runAsUser"] == NOBODY
    assert by_kind["HorizontalPodAutoscaler"]["metrics"][0]["pods"]["metric"]["name"] == "cnna_queue_samples"
    assert by_kind["HorizontalPodAutoscaler"]["scaleTargetRef"]["name"] == "cnna"
    assert by_kind["InferenceService"]["predictor"]["model"]["runtime"] == "cnna"


def test_the_bill_names_every_file_with_its_digest(context: Path) -> None:
    """Whoever looks for a package with a known fault would not find it here."""
    bill = json.loads((context / "sbom.cdx.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["name"] == "cnna"
    found = {part["name"]: part["hashes"][0]["content"] for part in bill["components"]}
    wanted = {"pyyaml": context / "wheels" / "pyyaml-1.0-py3-none-any.whl"}
    if context.name == "monolithic":
        wanted |= {str(path.relative_to(context / "models")): path for path in (context / "models").rglob("*") if path.is_file()}
    assert found == {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in wanted.items()}
    assert {one for part in bill["dependencies"] for one in part["dependsOn"]} == {part["bom-ref"] for part in bill["components"]}


def test_what_does_not_fit_is_one_line(published: Path, wheels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A text with a line break in it would become an instruction of the Dockerfile."""
    for given, said in (
        (["--base", "debian\nRUN evil"], "is no name of an image"),
        (["--tag", "a b"], "is no name of an image"),
        (["--board", "here=pynq,overlay=cnna.bit"], "a container has no board of its own"),
        (["--board", "far=pynq:10.0.0.2,overlay=none.bit"], "none.bit is missing"),
        (["--config", "tiny"], "--config: is for --as library alone"),
    ):
        words = ["pack", str(published), "--as", "image", "-o", str(tmp_path / "out"), "--wheels", str(wheels), *given]
        assert main(words) == 2
        line = capsys.readouterr().err
        assert said in line
        assert "Traceback" not in line
    assert not (tmp_path / "out").exists()
