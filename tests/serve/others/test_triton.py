"""The example for Triton, against a stand-in for its server: answers, batches, errors, instances, and the end."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from triton_backend import repository as example

from cnna.host.selftest.selftest_network import ANSWERS, path_of, pictures
from cnna.spec.errors import UserError

from .stand_in import Instance, Request, TritonError, parsed

Images = NDArray[np.float32]


@pytest.fixture(scope="module")
def served(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Triton's repository of the digits network, with two boards in two instances."""
    root = tmp_path_factory.mktemp("triton")
    line = [str(published), "-o", str(root), "--boards", "left=emulator", "right=emulator", "--instances", "2"]
    assert example.main(line) == 0
    return root


@pytest.fixture
def instance(served: Path) -> Any:
    found = Instance(served, "digits", "1")
    yield found
    found.model.finalize()


def test_the_configuration_is_the_models(served: Path, images: Images, answers: Images) -> None:
    """Triton would refuse requests of the right shape, or pass on others."""
    config = parsed(served / "digits" / "config.pbtxt")
    (given,), (taken,) = config["input"], config["output"]
    assert (given["name"], given["data_type"], given["dims"]) == ("image", "TYPE_FP32", list(images.shape[1:]))
    assert (taken["name"], taken["data_type"], taken["dims"]) == ("logits", "TYPE_FP32", list(answers.shape[1:]))
    assert (config["backend"], config["max_batch_size"], config["instance_group"][0]["count"]) == ("python", 64, 2)
    assert config["version_policy"]["specific"]["versions"] == ["1"]


def test_answers_equal_the_references(instance: Instance, images: Images, answers: Images) -> None:
    """Memory that Triton has taken back, or answers that were given to another request, would show here."""
    requests = [Request({"image": images[first : first + 1 + first % 3]}) for first in range(20)]
    for first in range(0, 20, 5):
        instance.ask(*requests[first : first + 5])
    for first, request in enumerate(requests):
        response = request.answer()
        assert response.error is None
        assert response.outputs["logits"].dtype == np.float32
        assert np.array_equal(response.outputs["logits"], answers[first : first + 1 + first % 3])


def test_the_engine_makes_batches_of_several_requests(instance: Instance, images: Images) -> None:
    """`execute` would wait for each request, and boards would run single samples."""
    requests = [Request({"image": images[:1]}) for _ in range(32)]
    instance.ask(*requests)
    assert all(request.answer().error is None for request in requests)
    (served,) = instance.model.engine.core.catalogue.served()
    assert served.stats.samples >= 32
    assert served.stats.batches <= served.stats.samples // 2


def test_a_wrong_request_fails_alone(instance: Instance, images: Images, answers: Images) -> None:
    """An exception of `execute` would fail all requests that Triton gave it."""
    good, shape, name = (Request({key: images[:1, :, :side]}) for key, side in (("image", 16), ("image", 9), ("picture", 16)))
    late = Request({"image": images[:1]}, timeout_us=1)
    instance.ask(shape, good, name, late)
    assert np.array_equal(good.answer().outputs["logits"], answers[:1])
    for request, word in ((shape, "[1, 1, 9, 16]"), (name, "picture")):
        error = request.answer().error
        assert error is not None
        assert (error.code, word in error.message) == (TritonError.INVALID_ARG, True)
    error = late.answer().error
    assert error is not None
    assert error.code == TritonError.UNAVAILABLE


def test_instances_share_the_boards(served: Path, images: Images, answers: Images) -> None:
    """Two processes would open one board."""
    both = [Instance(served, "digits", "1", number) for number in range(2)]
    try:
        names = [[board.spec.name for board in one.model.engine.core.boards] for one in both]
        assert names == [["left"], ["right"]]
        requests = [Request({"image": images[:4]}) for _ in both]
        for one, request in zip(both, requests, strict=True):
            one.ask(request)
        assert all(np.array_equal(request.answer().outputs["logits"], answers[:4]) for request in requests)
    finally:
        for one in both:
            one.model.finalize()


def test_the_end_answers_what_is_open(served: Path, images: Images) -> None:
    """Triton would wait for ever for a request that a model has forgotten, and keep worker processes."""
    found = Instance(served, "digits", "1")
    assert found.model.is_ready()
    requests = [Request({"image": images}) for _ in range(2)]
    found.ask(*requests)
    found.model.finalize()
    for request in requests:
        response = request.answer()
        assert response.error is None or response.error.code == TritonError.UNAVAILABLE
    assert all(board.state != "ready" for board in found.model.engine.core.boards)


def test_what_cannot_be_served_says_why(served: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A load that fails later, or in Triton's log alone, is hard to find."""
    file = str(path_of("tiny"))
    shutil.copy(served / "digits" / "1" / "repository" / "digits" / "1" / "tiny-b1.cnna", tmp_path / "digits.cnna")
    for more, word in (
        (["--boards", "left=nothing"], "there is no kind 'nothing'"),
        (["--instances", "2"], "--instances 2: must be within 1..1"),
        (["--pictures"], "model digits stores no preprocessing"),
    ):
        given = str(tmp_path / "digits.cnna") if "digits" in word else file
        assert example.main([given, "-o", str(tmp_path), *more]) == 2
        assert word in capsys.readouterr().err
    assert example.main([file, "-o", str(tmp_path)]) == 0
    assert example.main([file, "-o", str(tmp_path)]) == 2
    assert "is there already" in capsys.readouterr().err
    (tmp_path / "tiny" / "1" / "repository" / "tiny" / "1" / "tiny.cnna").write_bytes(b"no artifact")
    with pytest.raises(Exception, match=r"tiny\.cnna"):
        Instance(tmp_path, "tiny", "1")


def test_a_repository_is_written_whole_or_not_at_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server would start with some of the models, and the same command refuse to write the others."""
    for name in ("a", "b"):
        (tmp_path / "from" / name / "1").mkdir(parents=True)
        shutil.copy(path_of("tiny"), tmp_path / "from" / name / "1" / "tiny.cnna")
    (tmp_path / "to" / "b").mkdir(parents=True)
    assert example.main([str(tmp_path / "from"), "-o", str(tmp_path / "to")]) == 2
    assert "b: is there already" in capsys.readouterr().err
    assert [one.name for one in (tmp_path / "to").iterdir()] == ["b"]
    (tmp_path / "to" / "b").rmdir()
    real = example.write_text

    def fails(path: Path, text: str) -> None:
        if path.parent.name == "b":
            raise UserError(f"{path}: no space left on device")
        real(path, text)

    with monkeypatch.context() as patched:
        patched.setattr(example, "write_text", fails)
        assert example.main([str(tmp_path / "from"), "-o", str(tmp_path / "to")]) == 2
    assert not list((tmp_path / "to").iterdir())
    assert example.main([str(tmp_path / "from"), "-o", str(tmp_path / "to")]) == 0
    assert sorted(one.name for one in (tmp_path / "to").iterdir()) == ["a", "b"]


def test_pictures_are_uint8(tmp_path: Path) -> None:
    """Clients would send four times as many bytes."""
    assert example.main([str(path_of("tiny")), "-o", str(tmp_path), "--pictures"]) == 0
    (given,) = parsed(tmp_path / "tiny" / "config.pbtxt")["input"]
    assert (given["data_type"], given["dims"]) == ("TYPE_UINT8", list(pictures().shape[1:]))
    instance, request = Instance(tmp_path, "tiny", "1"), Request({"picture": pictures()})
    try:
        instance.ask(request)
        with np.load(ANSWERS) as wanted:
            assert np.array_equal(request.answer().outputs["conv11"], wanted["y"])
    finally:
        instance.model.finalize()


def test_names_survive_the_text_format(tmp_path: Path) -> None:
    """A tensor may be called anything."""
    name = 'a "\\ é\n'
    (tmp_path / "config.pbtxt").write_text(
        f"name: {example.quoted(name)}\n"
        + example.tensor("input", example.Tensor(name, "int64", ()))
        + example.tensor("output", example.Tensor(name, "float32", (2, None)))
    )
    config = parsed(tmp_path / "config.pbtxt")
    (given,), (taken,) = config["input"], config["output"]
    assert config["name"] == given["name"] == name
    assert (given["dims"], given["reshape"], taken["dims"]) == ([1], {}, [2, -1])
