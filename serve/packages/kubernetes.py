"""Kubernetes' own objects for an image, without an operator of our own: plain YAML, to be read and changed by whoever applies it.

`deployment.yaml` runs it with an autoscaler on the samples that wait; `kserve.yaml` has a ServingRuntime and an InferenceService.
"""

from pathlib import Path

OWN = Path(__file__).parent / "image_files"
FILES = ("deployment.yaml", "kserve.yaml")
CLAIM = """\
        - name: models
          persistentVolumeClaim:
            claimName: cnna-models
            readOnly: true
"""
MOUNT = """\
            - name: models
              mountPath: /mnt/models
              readOnly: true
"""


def manifests(tag: str, independent: bool) -> dict[str, str]:
    """The files by name. independent: models come from a volume."""
    values = {"@TAG@": tag, "@CLAIM@\n": CLAIM if independent else "", "@MOUNT@\n": MOUNT if independent else ""}
    found = {}
    for name in FILES:
        text = (OWN / name).read_text()
        for key, value in values.items():
            text = text.replace(key, value)
        found[name] = text
    return found
