"""Loading the library: one of another processor, of other sources, or none, is not used, and the reason is said."""

import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cnna.cli.main import main
from cnna.host.native import build, library

REMEDY = re.escape(library.REMEDY)


def made(path: Path, digest: str, *flags: str) -> Path:
    """A library that answers with a digest, and has nothing else."""
    text = f'extern "C" const char *cnna_host_sources() {{ return "{digest}"; }}'
    subprocess.run(["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(path), *flags], input=text, text=True, check=True)
    return path


def test_the_library_of_this_clone_is_the_one_of_its_sources():
    """A change of a kernel would be tested in the library from before it."""
    assert library.native().calls is not None, f"{library.native().why}; make .venv/installed builds it"


def test_other_sources_are_named(tmp_path: Path):
    """After a `git pull`, an old library would have other arguments than Python gives."""
    found = library.opened(made(tmp_path / build.NAME, "0" * 64))
    assert found.calls is None
    assert str(found) == "numpy: libcnna_host.so.0 was built from other sources than those beside it; install cnna again"


@pytest.mark.parametrize("content", [b"", b"no library", b"\x7fELF\x02\x01\x01" + bytes(80)])
def test_a_file_that_is_no_library_is_named(tmp_path: Path, content: bytes):
    """A damaged file, or one for another processor, would end in a traceback at `import`."""
    (tmp_path / build.NAME).write_bytes(content)
    found = library.opened(tmp_path / build.NAME)
    assert found.calls is None
    assert str(found).startswith("numpy: libcnna_host.so.0 cannot be loaded (")
    assert str(found).endswith(f"); {library.REMEDY}")


@pytest.mark.parametrize("part", [0.001, 0.01, 0.1, 0.25, 0.5, 0.9, 0.999])
def test_a_library_that_is_cut_off_is_named(tmp_path: Path, part: float):
    """A copy to a board that was interrupted: the loader maps what is not there, and Python dies of SIGBUS."""
    whole = (build.FOLDER / build.NAME).read_bytes()
    (tmp_path / build.NAME).write_bytes(whole[: int(part * len(whole))])
    line = [sys.executable, "-c", "import sys; print(library.opened(Path(sys.argv[1])))", str(tmp_path / build.NAME)]
    line[2] = f"from pathlib import Path; from cnna.host.native import library; {line[2]}"
    said = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(rf"numpy: libcnna_host.so.0 cannot be loaded \(.*(cut off|too short|cannot).*\); {REMEDY}\n", said)


def test_a_library_for_a_newer_glibc_is_named(tmp_path: Path):
    """A wheel that was built on a PC meets the C library of an older image."""
    (tmp_path / "map").write_text("GLIBC_9.99 { global: newer; };")
    libc = ["-nostdlib", "-Wl,-soname,libc.so.6", f"-Wl,--version-script={tmp_path / 'map'}"]
    built(tmp_path / "libc.so.6", "int newer() { return 1; }", *libc)
    text = 'int newer(); const char *cnna_host_sources() { return newer() ? "" : "x"; }'
    library_file = built(tmp_path / build.NAME, text, "-nostdlib", str(tmp_path / "libc.so.6"))
    said = str(library.opened(library_file))
    assert re.fullmatch(rf"numpy: .* cannot be loaded \(.*version `GLIBC_9.99' not found.*\); {REMEDY}", said)


@pytest.mark.aarch64
def test_a_library_of_another_processor_is_named(tmp_path: Path):
    """A wheel for a board, unpacked on a PC, or the other way round."""
    subprocess.run(build.command(tmp_path / build.NAME, "aarch64-linux-gnu-g++"), check=True)
    path = tmp_path / build.NAME
    said = str(library.opened(path))
    here = platform.machine()
    assert said == f"numpy: libcnna_host.so.0 cannot be loaded ({path} is for aarch64, and this is {here}); {library.REMEDY}"


def test_the_doctor_says_why_numpy_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """A user whose board is slow asks the doctor first."""
    made(tmp_path / build.NAME, "0" * 64)
    monkeypatch.setattr(library, "FOLDER", tmp_path)
    library.native.cache_clear()
    try:
        assert main(["doctor", "--board"]) in (0, 1)
    finally:
        library.native.cache_clear()
    said = [line for line in capsys.readouterr().out.splitlines() if "converted by" in line]
    assert said == [f"pictures and answers are converted by {library.opened(tmp_path / build.NAME)}"]


def built(path: Path, text: str, *flags: str) -> Path:
    """A shared library from C."""
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-x", "none", "-o", str(path), *flags], input=text, text=True, check=True
    )
    return path


def test_a_library_without_the_digest_is_named(tmp_path: Path):
    """Any other .so of that name would be called with our arguments."""
    path = tmp_path / build.NAME
    subprocess.run(["g++", "-shared", "-x", "c++", "/dev/null", "-o", str(path)], check=True)
    assert "cannot be loaded" in str(library.opened(path))


def test_without_a_library_numpy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A user whose board is slow would not learn that a compiler was missing when cnna was installed."""
    monkeypatch.setattr(library, "FOLDER", tmp_path)
    found = library.native.__wrapped__()
    assert found.calls is None
    assert str(found) == f"numpy: there is no native library; {library.REMEDY}"


def test_the_digest_knows_names_and_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A renamed or changed source would count as the same library."""
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    digests = []
    for name, text in (("a.cpp", "x"), ("b.cpp", "x"), ("b.cpp", "y"), ("b.py", "y")):
        for old in tmp_path.iterdir():
            old.unlink()
        (tmp_path / name).write_text(text)
        digests.append(build.digest())
    assert len(set(digests)) == 4
