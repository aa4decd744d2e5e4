"""What CI and the dev container install: one script, which asks for everything that a bare machine lacks."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

PACKAGES = ".ci/packages"


def test_ci_and_the_dev_container_are_filled_by_one_script(root: Path) -> None:
    """A program that a new test needs would be in one of the two alone."""
    container = json.loads((root / ".devcontainer" / "devcontainer.json").read_text())
    assert container["onCreateCommand"] == PACKAGES
    assert PACKAGES in (root / ".ci" / "run").read_text().splitlines()
    assert "apt-get" not in (root / ".ci" / "run").read_text()
    (target,) = re.findall(r"^make (\S+)$", container["postCreateCommand"])
    assert f"READY = {target}\n" in (root / "Makefile").read_text()


def test_a_bare_machine_gets_what_the_readme_asks_for(root: Path, tmp_path: Path) -> None:
    """A contributor's container would lack a program that the README's own line installs."""
    for name in ("bash", "dirname"):
        found = shutil.which(name)
        assert found
        (tmp_path / name).symlink_to(found)
    for name, text in (("apt-get", 'echo "apt-get $*"'), ("sudo", 'exec "$@"')):
        (tmp_path / name).write_text(f"#!{shutil.which('bash')}\n{text}\n")
        (tmp_path / name).chmod(0o755)
    bash = shutil.which("bash")
    assert bash
    environment = {**os.environ, "PATH": str(tmp_path)}
    said = subprocess.run([bash, root / PACKAGES], env=environment, capture_output=True, text=True, check=True).stdout
    (installed,) = re.findall(r"^apt-get install -qy (.*)$", said, re.M)
    (asked,) = re.findall(r"`apt install ([^`]*)`", (root / "README.md").read_text())
    assert set(asked.split()) <= set(installed.split())
    assert {"chromium", "qemu-user", "g++-aarch64-linux-gnu"} <= set(installed.split())


def test_ci_leaves_nothing_out_and_nothing_beside_what_is_timed(root: Path) -> None:
    """A step that fails would never run; or a soak would wait for a processor and call a server slow."""
    lines = re.findall(r"^(?:\w+=1 )?(make .*)$", (root / ".ci" / "run").read_text(), re.M)
    wanted = set(re.findall(r"^baseline: (.*?) +##", (root / "Makefile").read_text(), re.M)[0].split())
    called = {word for line in lines for word in line.split()}
    assert {"test", "fresh", "soak", "demo", "aarch64", "baseline"} <= called
    assert "make soak" in lines
    assert "make test" in lines
    recipe = subprocess.run(["make", "--dry-run", "baseline"], cwd=root, capture_output=True, text=True, check=True).stdout
    for name in wanted:
        alone = subprocess.run(["make", "--dry-run", name], cwd=root, capture_output=True, text=True, check=True).stdout
        assert alone.splitlines()[-1] in recipe, name
    steps = (
        "-m yosys",
        "lint_clean",
        "bench.py --check resnet50/b1",
        "squeezenet/b1/x2",
        "compile_cost.py --check",
        "-m host_cost",
        "--check resnet50 yolov8n",
    )
    for step in steps:
        assert recipe.count(f"{step}\n") + recipe.count(f"{step} ") == 1, step


def test_programs_that_a_recipe_starts_share_no_jobs(root: Path, tmp_path: Path) -> None:
    """The make that builds a simulator would warn on standard error that it has no job server, and use one processor."""
    (tmp_path / "more.mk").write_text(f'include {root / "Makefile"}\nshown:\n\t@echo "[$$MAKEFLAGS]"\n')
    line = ["make", "--no-print-directory", "--jobs", "2", "--file", str(tmp_path / "more.mk"), "shown"]
    assert subprocess.run(line, cwd=root, capture_output=True, text=True, check=True).stdout == "[]\n"
