"""Every entry of a manifest has the kind that its readers know, or is refused with its place."""

import pytest

from cnna.spec.manifest import misfit

from ..host.hand_made import requantised_copy, with_cpu


@pytest.fixture
def manifest():
    """A manifest with an entry in each of its lists."""
    node = {"name": "s", "op": "Softmax", "inputs": ["y"], "outputs": ["z"], "attributes": {}}
    changes = {
        "preprocess": {"scale": 1.0, "mean": [0.0], "std": [1.0]},
        "model_inputs": [{"name": "x", "shape": [3, None], "dtype": "float32"}],
        "members": {"model.onnx": {"bytes": 8, "sha256": "0"}},
    }
    return with_cpu(requantised_copy(**changes), b"", {**node, "constants": {"y": {"dtype": "int64", "values": [1]}}}).manifest


def _entries(value, where=()):
    """Every entry of a JSON value, as the path to it."""
    for key, entry in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*where, key)
        yield from _entries(entry, (*where, key))


def _differs(manifest, where, entry):
    """The manifest with another value at that place."""
    if not where:
        return entry
    copy = dict(manifest) if isinstance(manifest, dict) else list(manifest)
    copy[where[0]] = _differs(manifest[where[0]], where[1:], entry)
    return copy


def test_an_entry_of_another_kind_is_named(manifest):
    """With another program's manifest and a right digest, `run` and `report` would end in a traceback."""
    assert misfit(manifest) is None
    for where in _entries(manifest):
        if where[0] not in ("format", "schema") and where[-1] != "values" and "values" not in where:
            found = misfit(_differs(manifest, where, [{}]))
            assert found is not None, where
            assert found.startswith(where[0])


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("pieces", 0, "layers", 0, "macs"), -1),
        (("pieces", 0, "layers", 0, "macs"), True),
        (("pieces", 0, "inputs", 0, "scale"), float("nan")),
        (("pieces", 0, "inputs", 0, "scale"), 0),
        (("pieces", 0, "outputs", 0, "zero"), 128),
        (("pieces", 0, "tensors", "x", "shape"), [3, 4]),
        (("pieces", 0, "tensors", "x", "shape", 1), 0),
        (("pieces", 0, "commands", 0, "origin"), [0, 0, 0]),
        (("batch",), 0),
    ],
)
def test_a_number_that_there_cannot_be_is_named(manifest, where, value):
    """The value has the right kind, but no compiler would write it."""
    named = misfit(_differs(manifest, where, value))
    assert named == "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in where)[1:]


@pytest.mark.parametrize("key", ["pieces", "preprocess", "isa"])
def test_a_missing_entry_is_named(manifest, key):
    """The manifest may come from an older or another program."""
    assert misfit({name: value for name, value in manifest.items() if name != key}) == key


def test_a_file_from_before_there_were_streams_is_sound(manifest):
    """Every model would have to be compiled again for a parameter that its program does not depend on."""
    config = {name: value for name, value in manifest["config"].items() if name not in ("streams", "depth")}
    assert misfit({**manifest, "config": config}) is None
    assert misfit({**manifest, "config": config | {"streams": "no"}}) == "config.streams"
    assert misfit({**manifest, "config": {name: value for name, value in config.items() if name != "pix"}}) == "config.pix"
