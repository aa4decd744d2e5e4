"""What goes into a package, where a model is another server's: that server need not be there when it is packed."""

import errno
import shutil
from pathlib import Path

import pytest

from cnna.cli.main import main
from cnna.serve.packages.contents import contents_of, copy_models
from cnna.serve.packages.library import make_library
from cnna.spec.errors import UserError

NOBODY = "grpc://127.0.0.1:1"  # no server listens there


@pytest.fixture
def edge(repository: Path) -> Path:
    """The repository of an edge: a model for boards, and one of a server that does not run."""
    (repository / "far" / "1").mkdir(parents=True)
    (repository / "far" / "model.yaml").write_text(f"runtime: remote\nremote: {{address: '{NOBODY}'}}\n")
    return repository


def test_a_model_of_another_server_is_packed_without_it(edge: Path, tmp_path: Path) -> None:
    """An edge could be packed only where its cloud can be reached."""
    contents = contents_of(edge)
    assert contents.names() == ["digits/1", "far/1"]
    copy_models(contents, tmp_path / "models")
    found, wanted = (
        {str(path.relative_to(root)) for root in (each,) for path in root.rglob("*")} for each in (tmp_path / "models", edge)
    )
    assert found == wanted
    assert contents_of(tmp_path / "models").names() == contents.names()


def test_what_is_said_of_it_is_checked(edge: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The mistake would be found where the package is installed."""
    (edge / "far" / "model.yaml").write_text(f"runtime: remote\nremote: {{address: '{NOBODY}', modle: digits}}\n")
    assert main(["pack", str(edge), "--as", "image", "--wheels", str(tmp_path), "-o", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "far/model.yaml: remote: unknown key 'modle'" in said
    assert len(said.splitlines()) == 1


def test_versions_and_names_that_do_not_fit_are_named(repository: Path, tmp_path: Path) -> None:
    """A user would read that 1 is no version, or that there is no model where there is one with a space in its name."""
    (repository / "digits" / "model.yaml").write_text("versions: [9]\n")
    with pytest.raises(UserError, match=r"digits/model\.yaml: asks for versions that are not there; there are 1$"):
        contents_of(repository)
    (repository / "digits").rename(repository / "my net")
    with pytest.raises(UserError, match=r"no model in .*: cnna publish adds one; .*my net: ignored; a model's name has letters"):
        contents_of(repository)


def test_a_library_has_none(edge: Path, tmp_path: Path) -> None:
    """It would have the models of boards alone, without a word."""
    with pytest.raises(UserError, match="far: is a model of another server; use --as service or --as image"):
        make_library(contents_of(edge), tmp_path / "out")


def test_a_package_is_not_put_into_the_repository(repository: Path) -> None:
    """The folder would be taken for a model without versions, and no server would start on the repository."""
    contents = contents_of(repository)
    for output in (repository / "out", repository / "digits" / "2", repository.parent / "x" / ".." / repository.name / "out"):
        with pytest.raises(UserError, match="is in the repository, where it would be a model; name a folder outside"):
            make_library(contents, output)
    assert contents_of(repository).names() == contents.names()


def test_a_compiler_of_open_quotes_is_one_line(repository: Path, tmp_path: Path) -> None:
    """A user would see an internal error."""
    for compiler, said in (("'g++", "--compiler 'g\\+\\+: no closing quotation"), (" ", "--compiler ' ': names no compiler")):
        with pytest.raises(UserError, match=said):
            make_library(contents_of(repository), tmp_path / "out", compiler=compiler)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("there", ["", "a folder", "a link"])
def test_a_full_disk_leaves_no_half_package(
    there: str, published: Path, wheels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user would read that standard output has no space, and then that the folder is there already. One's own folder stays."""

    def full(source: Path, place: Path) -> None:
        (Path(place) / "half" if Path(place).is_dir() else Path(place)).write_bytes(b"1")
        raise OSError(errno.ENOSPC, "No space left on device", str(source), None, str(place))

    output = tmp_path / "out"
    if there:
        (own := tmp_path / "own" if there == "a link" else output).mkdir(mode=0o750)
        if own != output:
            output.symlink_to(own)
    for kind, more in (("image", ["--wheels", wheels]), ("service", ["--wheels", wheels]), ("library", [])):
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "copy", full)
            patch.setattr(shutil, "move", lambda source, place: full(source, place.parent))
            assert main(["pack", str(published), "--as", kind, "-o", str(output), *map(str, more)]) == 2
        said = capsys.readouterr().err
        assert said.rstrip().endswith(": no space left on device")
        assert "standard output" not in said
        assert said.count("\n") == 1
        assert output.is_dir() == bool(there)
        assert output.is_symlink() == (there == "a link")
        assert not there or output.stat().st_mode & 0o777 == 0o750
        assert not list(output.rglob("*"))
