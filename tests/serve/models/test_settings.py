"""`model.yaml`: what it may say, and the one line for what it may not."""

from pathlib import Path

import pytest

from cnna.serve.models.settings import Canary, Settings, settings_of, version_name
from cnna.spec.errors import UserError


def read(folder: Path, text: str) -> Settings:
    path = folder / "model.yaml"
    path.write_text(text)
    return settings_of(path)


def test_every_key_is_read(tmp_path: Path) -> None:
    """A key that is read under another name would silently keep its default."""
    text = """
runtime: cnna
versions: [1, 3]
max_delay_us: 500
queue: 9
deadline_ms: 20
retries: 0
canary: {version: 3, share: 0.25}
max_request_samples: 7
"""
    assert read(tmp_path, text) == Settings("cnna", ("1", "3"), 500, 9, 20, 0, Canary("3", 0.25), 7)
    assert read(tmp_path, "") == Settings()
    assert read(tmp_path, "versions: latest 3").versions == 3
    assert read(tmp_path, "versions: all").versions is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("delay: 3", "unknown key 'delay'; there are runtime, versions"),
        ("fallback: cnna", "fallback: 'cnna' cannot stand in for boards; there are function, onnxruntime, remote"),
        ("runtime: remote\nfallback: remote", "fallback: remote is the model's runtime already"),
        ("runtime: tensorflow", "there is no runtime 'tensorflow'; there are cnna, function, onnxruntime, remote"),
        ("queue: 0", "queue: 0 is not an integer within 1.."),
        ("queue: true", "queue: True is not an integer"),
        ("retries: 1.5", "retries: 1.5 is not an integer"),
        ("versions: newest", "'newest' is none of `latest N`, `all` and a list"),
        ("versions: [a]", "is none of `latest N`"),
        ("canary: {version: 3}", "is not like {version: 3, share: 0.1}"),
        ("canary: {version: 3, share: 2}", "the share within 0..1"),
        ("- 1", "must be a list of `key: value` lines"),
        ("a: [", "not YAML"),
        ("queue: 1\nqueue: 2", "line 2: the key 'queue' comes twice"),
        ("versions: 2020-99-99", "not YAML: month must be in 1..12"),
        ("queue: !!int three", "not YAML: invalid literal"),
        ("queue: !!bool maybe", "not YAML"),
        ("queue: !!timestamp now", "not YAML"),
        ("queue: !!map [1]", "not YAML"),
        ("queue: " + "9" * 5000, "not YAML"),
    ],
)
def test_a_mistake_is_one_line_with_file_and_remedy(tmp_path: Path, text: str, said: str) -> None:
    """A misspelt key that is ignored would leave a model with a queue or deadline that nobody wanted."""
    with pytest.raises(UserError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / "model.yaml"))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_versions_that_are_chosen() -> None:
    """The wrong version would be served, or a canary would hide the version that all others get."""
    there = ["9", "10", "2"]
    assert Settings().chosen(there) == ["10"]
    assert Settings(versions=2).chosen(there) == ["9", "10"]
    assert Settings(versions=None).chosen(there) == ["2", "9", "10"]
    assert Settings(versions=("2", "7")).chosen(there) == ["2"]
    assert Settings(canary=Canary("10", 0.1)).chosen(there) == ["9", "10"]
    assert Settings(canary=Canary("2", 0.1)).chosen(there) == ["2", "10"]


@pytest.mark.parametrize("name", ["0", "01", "-1", "1.0", "", "a", "²", "../1", 1.0, None, True])
def test_what_is_no_version(name: object) -> None:
    """`01` and `1` would be two folders of one version, and `..` would lead out of the repository."""
    assert version_name(name) is None


def test_a_version() -> None:
    """Both YAML's integers and the names of folders are versions."""
    assert version_name(7) == version_name("7") == "7"
