"""Loading the library: one of another processor, of other sources, or none, is not used, and the reason is said."""

import subprocess
from pathlib import Path

import pytest

from cnna.host.native import build, library


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
