"""A .cnna file is read back whole, or refused with one line: never loaded in part, never a traceback."""

import zipfile
from dataclasses import replace

import numpy as np
import pytest

from cnna.spec import artifact as files
from cnna.spec.artifact import load, save
from cnna.spec.checks import archive
from cnna.spec.config import as_dict, preset
from cnna.spec.ddr import PL, PLANNED, DdrSpeed
from cnna.spec.errors import ArtifactError
from cnna.spec.regmap import BY_OFFSET, CLEARED, VERSION, offset, registers_of

from ..host.hand_made import cpu_entry
from .changed_artifact import edit, of_program, repack


def with_program(artifact, **changes):
    """The artifact with other entries in its program's manifest."""
    first, *others = artifact.manifest["pieces"]
    return replace(artifact, manifest={**artifact.manifest, "pieces": [{**first, **changes}, *others]})


def refuse(path, *words):
    with pytest.raises(ArtifactError) as caught:
        load(path)
    text = str(caught.value)
    assert str(path) in text
    assert "\n" not in text
    for word in words:
        assert word in text


def test_what_is_saved_is_loaded(artifact, tmp_path):
    save(artifact, tmp_path / "m.cnna")
    back = load(tmp_path / "m.cnna")
    assert (back.pieces, back.model) == (artifact.pieces, b"onnx")
    assert {key: back.manifest[key] for key in artifact.manifest} == artifact.manifest
    assert back.config == preset("tiny")
    assert [p.name for p in tmp_path.iterdir()] == ["m.cnna"]  # no partial file may stay


def test_equal_input_gives_equal_bytes(artifact, tmp_path):
    for name in "ab":
        save(artifact, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_saved_artifact_can_be_saved_again(artifact, tmp_path):
    save(artifact, tmp_path / "a")
    save(load(tmp_path / "a"), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_every_truncation_is_refused(artifact, tmp_path):
    save(artifact, tmp_path / "m.cnna")
    whole = (tmp_path / "m.cnna").read_bytes()
    for size in [*range(0, len(whole), 97), len(whole) - 1]:
        (tmp_path / "t.cnna").write_bytes(whole[:size])
        refuse(tmp_path / "t.cnna")


def test_a_flipped_byte_anywhere_is_refused_or_harmless(artifact, tmp_path):
    """The zip's own bookkeeping may change where it means nothing (time stamps, attributes); contents may not."""
    save(artifact, tmp_path / "m.cnna")
    whole, first = (tmp_path / "m.cnna").read_bytes(), load(tmp_path / "m.cnna")
    for at in range(0, len(whole), 23):
        (tmp_path / "t.cnna").write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        try:
            assert load(tmp_path / "t.cnna") == first
        except ArtifactError as error:
            assert "\n" not in str(error)  # noqa: PT017 - either outcome is right, a traceback is not


@pytest.mark.parametrize("member", ["piece0.program.bin", "piece0.constants.bin", "model.onnx", "piece1.onnx"])
def test_an_altered_member_is_refused_by_name(artifact, tmp_path, member):
    save(artifact, tmp_path / "m.cnna")
    repack(tmp_path / "m.cnna", lambda members: members.update({member: members[member][:-1] + b"\xaa"}))
    refuse(tmp_path / "m.cnna", "altered", member)


def test_an_altered_manifest_is_refused(artifact, tmp_path):
    save(artifact, tmp_path / "m.cnna")
    repack(tmp_path / "m.cnna", edit(batch=1), digest=False)
    refuse(tmp_path / "m.cnna", "altered", files.MANIFEST)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (edit(schema=files.SCHEMA + 1), ["newer"]),
        (edit(schema=files.OLDEST - 1), ["older", "rebuild it: cnna compile "]),
        (edit(schema="1"), ["schema"]),
        (edit(format="zip"), ["not a .cnna file"]),
        (edit(isa=[VERSION[0] + 1, 0]), ["register map"]),
        (edit(isa=[1]), ["isa"]),
        (edit(config={"name": "tiny"}), ["config"]),
        (edit(config={**as_dict(preset("tiny")), "pix": 3}), ["pix"]),
        (edit(batch="2"), ["batch"]),
        (edit(batch=0), ["batch"]),
        (of_program(program_writes=4), ["program.bin"]),
        (of_program(segments={"constant": 4096}), ["segments"]),
        (of_program(segments={"constant": 0, "workspace": 0, "input": 4096, "output": 4096}), ["constants.bin"]),
        (of_program(inputs=[{"name": "x"}]), ["pieces[0].inputs[0].tensor"]),
        (of_program(inputs=[3]), ["pieces[0].inputs[0]"]),
        (edit(pieces=[]), ["piece0.program.bin"]),
        (edit(pieces=[cpu_entry({})]), ["pieces[0].operators[0].name"]),
        (edit(pieces=[{"kind": "gpu"}]), ["pieces[0]"]),
        (edit(members={}), ["members"]),
        (edit(members=[]), ["members"]),
        (lambda m: m.update({files.MANIFEST: b"{"}), ["JSON"]),
        (lambda m: m.update({files.MANIFEST: b"[1]"}), ["not a .cnna file"]),
        (lambda m: m.pop("model.onnx"), ["model.onnx"]),
        (lambda m: m.update({"extra.bin": b""}), ["extra.bin"]),
    ],
)
def test_an_unsound_file_is_refused(artifact, tmp_path, change, words):
    save(artifact, tmp_path / "m.cnna")
    repack(tmp_path / "m.cnna", change)
    refuse(tmp_path / "m.cnna", *words)


def test_a_port_beyond_its_segment_is_refused(artifact, tmp_path):
    manifest = artifact.program.manifest
    port = {**manifest["inputs"][0], "offset": manifest["segments"]["input"] - 64}
    with pytest.raises(ArtifactError, match="beyond its segment"):
        save(with_program(artifact, inputs=[port]), tmp_path / "m")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("ddr", "times"),
    [
        (None, 1),
        (PLANNED, 1),
        (DdrSpeed(64, 60), 1),
        (DdrSpeed(8, 120), 2),
        (PL, 16 / 15),
        (DdrSpeed(1, 120), 16),
        (DdrSpeed(48, 480), 4),
        (DdrSpeed(8, 480), 4),
    ],
)
def test_a_slower_memory_takes_longer_by_at_most_what_it_is_slower(artifact, ddr, times):
    """A limit that is too low would stop a run for nothing. The one port of `tiny` moves at most 16 bytes a clock."""
    predicted = {"cycles": 1500, "ddr": PLANNED.entry()}
    slow = replace(artifact.program, manifest={**artifact.program.manifest, "predicted": predicted})
    assert slow.predicted_clocks(ddr) == 1500 * times


def test_predicted_clocks_that_disagree_are_refused(artifact, tmp_path):
    """The sum of the layers would differ from the figure of the whole."""
    save(artifact, tmp_path / "m.cnna")
    manifest = artifact.program.manifest
    predicted = manifest["predicted"]
    repack(tmp_path / "m.cnna", of_program(predicted={**predicted, "cycles": predicted["cycles"] + 1}))
    refuse(tmp_path / "m.cnna", "do not add up")
    bare = [{name: value for name, value in command.items() if name != "predicted"} for command in manifest["commands"]]
    repack(tmp_path / "m.cnna", of_program(predicted=predicted, commands=bare))
    refuse(tmp_path / "m.cnna", "no predicted clocks")


FOLD = {"shape": [24, 2, 2], "step": [2, 2], "span": [2, 2], "before": [0, 1]}


@pytest.mark.parametrize("change", [{}, {"step": [0, 2]}, {"span": [3, 2]}, {"before": [-1, 0]}, {"shape": [24, 2]}, {"step": [2]}])
def test_only_a_sound_fold_is_taken(artifact, tmp_path, change):
    """Numbers that contradict each other would pack another picture, or none."""
    port = {**artifact.program.manifest["inputs"][0], "block_bytes": 16, "row_bytes": 8, "fold": {**FOLD, **change}}
    folded = with_program(artifact, inputs=[port])
    if not change:
        save(folded, tmp_path / "m.cnna")
        assert load(tmp_path / "m.cnna").program.manifest["inputs"] == [port]
    else:
        with pytest.raises(ArtifactError, match="port x has no proper 'fold'"):
            save(folded, tmp_path / "m.cnna")


def test_an_output_has_no_fold(artifact, tmp_path):
    """Nothing would unfold it."""
    port = {**artifact.program.manifest["outputs"][0], "fold": FOLD}
    with pytest.raises(ArtifactError, match="port y has no proper 'fold'"):
        save(with_program(artifact, outputs=[port]), tmp_path / "m.cnna")


def test_a_program_without_end_is_refused(artifact, tmp_path):
    program = artifact.program.program
    endless = replace(artifact.program, program=program[:-8] + program[:8])
    with pytest.raises(ArtifactError, match="END"):
        save(replace(artifact, pieces=(endless, artifact.pieces[1])), tmp_path / "m")


def first_written_last(program, name):
    """The program with the first write to a register behind all commands."""
    writes = np.frombuffer(program, "<u4").reshape(-1, 2)
    at = int(np.flatnonzero(writes[:, 0] == offset(name))[0])
    return np.concatenate([np.delete(writes, at, 0)[:-1], writes[[at, -1]]]).tobytes()


@pytest.mark.parametrize("engine", ["load", "weight", "vector", "store"])
def test_a_command_takes_no_register_that_an_earlier_program_left(artifact, tmp_path, engine):
    """Its first run would take what another program left there, and its second run what the first one left: other answers."""
    for register in (register for register, _ in registers_of(engine) if register.name not in CLEARED):
        changed = replace(artifact.program, program=first_written_last(artifact.program.program, register.name))
        whole = replace(artifact, pieces=(changed, artifact.pieces[1]))
        with pytest.raises(ArtifactError, match=f"queues a {engine} command before any write to {register.name}, whose value"):
            save(whole, tmp_path / "m.cnna")


def test_registers_that_a_start_clears_need_no_write(artifact, tmp_path):
    """Programs from before these registers would be refused."""
    writes = np.frombuffer(artifact.program.program, "<u4").reshape(-1, 2)
    older = writes[[BY_OFFSET[int(one)].name not in CLEARED for one in writes[:, 0]]]
    assert len(older) < len(writes)
    changed = with_program(artifact, program_writes=len(older))
    save(replace(changed, pieces=(replace(artifact.program, program=older.tobytes()), artifact.pieces[1])), tmp_path / "m.cnna")
    assert load(tmp_path / "m.cnna").program.program == older.tobytes()


def test_foreign_and_missing_files_are_refused(tmp_path):
    refuse(tmp_path / "none.cnna", "no such file")
    (tmp_path / "text.cnna").write_text("hello")
    refuse(tmp_path / "text.cnna", "not a .cnna file")
    with zipfile.ZipFile(tmp_path / "zip.cnna", "w") as archive:
        archive.writestr("hello.txt", "hello")
    refuse(tmp_path / "zip.cnna", "not a .cnna file")
    refuse(tmp_path, "a folder, not a .cnna file")


def test_a_zip_bomb_is_refused_before_it_is_unpacked(artifact, tmp_path, monkeypatch):
    save(artifact, tmp_path / "m.cnna")
    monkeypatch.setattr(archive, "SIZE_FLOOR_BYTES", 1 << 20)
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *_: pytest.fail("unpacked"), raising=True)
    with zipfile.ZipFile(tmp_path / "b.cnna", "w", zipfile.ZIP_DEFLATED) as bomb:
        for name in (files.MANIFEST, files.DIGEST, "model.onnx", "piece0.constants.bin"):
            bomb.writestr(name, b"\0" * (64 << 20 if name == "piece0.constants.bin" else 10))
    refuse(tmp_path / "b.cnna", "unpacks to")


def test_an_unwritable_folder_is_one_line(artifact, tmp_path):
    with pytest.raises(ArtifactError, match="cannot be written"):
        save(artifact, tmp_path / "none" / "m.cnna")


@pytest.mark.parametrize("change", [{"layer": 1}, {"tensor": "nowhere"}])
def test_a_command_of_nothing_is_refused(artifact, tmp_path, change):
    """A report would look up a layer that does not exist."""
    save(artifact, tmp_path / "m.cnna")
    commands = artifact.program.manifest["commands"]
    repack(tmp_path / "m.cnna", of_program(commands=[{**commands[0], **change}, *commands[1:]]))
    refuse(tmp_path / "m.cnna", "commands[0]")


def test_commands_are_those_that_the_program_queues(artifact, tmp_path):
    """The layer's name in an error, or in a profile, comes from the command's place in this list."""
    save(artifact, tmp_path / "m.cnna")
    repack(tmp_path / "m.cnna", of_program(commands=[*artifact.program.manifest["commands"]] * 2))
    refuse(tmp_path / "m.cnna", "queues 4 commands", "lists 8")


def test_an_input_port_is_an_inputs(artifact, tmp_path):
    """No array of the user's would ever be found for it."""
    save(artifact, tmp_path / "m.cnna")
    repack(tmp_path / "m.cnna", of_program(inputs=[{**artifact.program.manifest["inputs"][0], "name": "z"}]))
    refuse(tmp_path / "m.cnna", "that of no input")
