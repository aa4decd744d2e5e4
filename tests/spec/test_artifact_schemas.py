"""A .cnna file of an earlier schema is read as one of today."""

import json

from cnna.spec import artifact as files
from cnna.spec.artifact import load, save
from cnna.spec.ddr import PLANNED

from .changed_artifact import repack


def older(members, schema):
    """The file as schemas 1 to 4 had it: a program with a head and a tail around it."""
    manifest = json.loads(members[files.MANIFEST])
    program, tail = manifest.pop("pieces")
    del manifest["cpu_macs"], program["kind"]
    manifest |= {**program, "cpu_head": [], "cpu_tail": tail["operators"], "schema": schema}
    names = {"piece0.program.bin": "program.bin", "piece0.constants.bin": "constants.bin", "piece1.onnx": "tail.onnx"}
    for new, old in names.items():
        members[old], manifest["members"][old] = members.pop(new), manifest["members"].pop(new)
    members[files.MANIFEST] = json.dumps(manifest).encode()


def test_the_schema_before_pieces_is_read(artifact, tmp_path):
    """A file of last year would have to be compiled again, and its model may be lost."""
    save(artifact, tmp_path / "m.cnna")
    repack(tmp_path / "m.cnna", lambda members: older(members, 4))
    back = load(tmp_path / "m.cnna")
    assert (back.pieces, back.model) == (artifact.pieces, artifact.model)
    save(back, tmp_path / "again.cnna")
    assert load(tmp_path / "again.cnna").pieces == artifact.pieces


def test_the_oldest_schema_is_read(artifact, tmp_path):
    """Its ports have no folds, so inputs are packed as they are. For clocks it has only an estimate."""
    save(artifact, tmp_path / "m.cnna")

    def oldest(members):
        older(members, files.OLDEST)
        manifest = json.loads(members[files.MANIFEST])
        for entry in (manifest, *manifest["commands"]):
            del entry["predicted"]
        members[files.MANIFEST] = json.dumps(manifest).encode()

    repack(tmp_path / "m.cnna", oldest)
    back = load(tmp_path / "m.cnna")
    assert back.program.program == artifact.program.program
    assert (back.predicted_for, back.predicted_clocks()) == (PLANNED, artifact.predicted_clocks())
