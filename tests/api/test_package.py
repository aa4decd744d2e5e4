"""What `import cnna` does by itself, before any room is imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import cnna

TELEMETRY = "ORT_DISABLE_TELEMETRY"


def _python(body: str, home: Path, **more: str) -> str:
    """What a program of its own prints, whose user has that home folder and works in it."""
    kept = {name: value for name, value in os.environ.items() if name not in (TELEMETRY, "XDG_CACHE_HOME")}
    environment = {**kept, "HOME": str(home), **more}
    line = [sys.executable, "-c", body]
    done = subprocess.run(line, cwd=home, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.mark.parametrize("body", ["import cnna, onnxruntime", "import cnna.compiler.quantise.sessions"])
def test_onnxruntime_reports_nothing_to_its_maker(body: str, tmp_path: Path) -> None:
    """onnxruntime would note who runs which model, keep a number for this computer in the home folder, and send both away."""
    _python(body, tmp_path)
    assert not list(tmp_path.rglob("*onnxruntime*"))


def test_who_wants_telemetry_keeps_it(tmp_path: Path) -> None:
    """A choice that the user has made in the environment would be overruled in silence."""
    assert _python(f"import cnna, os; print(os.environ['{TELEMETRY}'])", tmp_path, **{TELEMETRY: "0"}) == "0"


def test_tab_shows_what_the_package_offers() -> None:
    """A notebook would complete `cnna.` with the rooms alone, and hide the classes that its user came for."""
    assert set(cnna.__all__) <= set(dir(cnna))
    assert not [name for name in dir(cnna) if not hasattr(cnna, name)]


def test_the_folder_that_holds_the_clone_does_not_hide_the_package(tmp_path: Path) -> None:
    """Who has cloned into a folder `cnna` and begins beside it would get that folder for the package, without a class in it."""
    (tmp_path / "cnna" / "spec").mkdir(parents=True)
    body = "import cnna, cnna.spec.errors; print(cnna.InferenceSession.__name__, cnna.spec.errors.CnnaError.__name__)"
    assert _python(body, tmp_path) == "InferenceSession CnnaError"
