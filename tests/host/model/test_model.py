"""`Model` on the emulator. A hand-written artifact: batches, names, types, errors, figures; compiled ones: CPU parts."""

import sys
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest

from cnna.cli.main import main
from cnna.compiler.compile import compile_model
from cnna.compiler.quantise.quantise import quantise as quantise_model
from cnna.host.model.model import Model
from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.spec.artifact import save
from cnna.spec.config import Config, as_dict, preset
from cnna.spec.errors import ArtifactError, DataError, RunError
from cnna.spec.regmap import offset
from cnna.spec.samples.pack import quantise

from ..hand_made import SCALE_IN, SCALE_OUT, SHAPE, ZERO_IN, ZERO_OUT, requantised_copy, samples, writes


def golden(x):
    """The model's definition, directly from its scales."""
    real = (quantise(x, SCALE_IN, ZERO_IN).astype(np.float64) - ZERO_IN) * SCALE_IN
    steps = np.clip(np.rint(real / SCALE_OUT) + ZERO_OUT, -128, 127)
    return ((steps - ZERO_OUT) * SCALE_OUT).astype(np.float32)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_all_samples_are_answered_whatever_the_batch(count):
    """A last batch that is not full must be filled up and cut again."""
    x = samples(count)
    with Model(requantised_copy(batch=2)) as model:
        y = model.run(x)
        assert y.dtype == np.float32
        assert np.array_equal(y, golden(x))
        assert np.array_equal(model.run({"x": x})["y"], y), "a dict in is a dict out, and a second run equals the first"


def test_uint8_goes_through_the_stored_preprocessing():
    """(x * scale - mean) / std for each channel, but only if the model says so."""
    x = np.random.default_rng(1).integers(0, 256, (3, *SHAPE)).astype(np.uint8)
    stored = {"scale": 0.5, "mean": [1.0] * 6, "std": [2.0, 1, 1, 1, 4, 1]}
    std = np.array(stored["std"], np.float32)[:, None, None]
    with Model(requantised_copy(preprocess=stored)) as model:
        assert np.array_equal(model.run(x), golden((x.astype(np.float32) * 0.5 - 1) / std))
    with Model(requantised_copy()) as model, pytest.raises(DataError, match="uint8"):
        model.run(x)


def test_pictures_with_channels_last_are_the_same_pictures():
    """Cameras and decoders give channels last. A shape that fits neither way must be refused as it was given."""
    x = np.random.default_rng(1).integers(0, 256, (3, *SHAPE)).astype(np.uint8)
    stored = {"scale": 0.3, "mean": [1.5] * 6, "std": [2.0, 1, 1, 1, 4, 1]}
    with Model(requantised_copy(preprocess=stored)) as model:
        want = model.run(x)
        assert np.array_equal(model.run(x.transpose(0, 2, 3, 1)), want)
        assert np.array_equal(model.run(np.ascontiguousarray(x.transpose(0, 2, 3, 1))), want)
        with pytest.raises(DataError, match=r"shape \[3, 4, 6, 3\]"):
            model.run(x.transpose(0, 3, 1, 2))
        with pytest.raises(DataError, match="has shape"):
            model.run(want.transpose(0, 2, 3, 1))


def test_every_value_of_a_picture_is_what_the_arithmetic_makes_of_it():
    """The table would differ from preprocessing and quantisation by one unit somewhere."""
    x = np.broadcast_to(np.arange(256, dtype=np.uint8)[:, None, None, None], (256, *SHAPE))
    stored = {"scale": 1 / 255, "mean": [0.485, 0.456, 0.406, 0, 1, 2], "std": [0.229, 0.224, 0.225, 1, 3, 0.01]}
    mean, std = (np.array(stored[key], np.float32)[:, None, None] for key in ("mean", "std"))
    with Model(requantised_copy(preprocess=stored)) as model:
        assert np.array_equal(model.run(x), golden((x.astype(np.float32) * np.float32(1 / 255) - mean) / std))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"z": samples(1)}, "has inputs x; missing: x; unknown: z"),
        (samples(1)[:, :3], r"shape \[1, 3, 3, 4\]"),
        (samples(1)[:0], "N at least 1"),
        (samples(1).astype(np.int64), "int64"),
        (samples(1).astype(np.int8), "input x is int8, but the model wants float32"),
        (samples(1).astype(object), "object"),
        ([[0.5], [0.5, 0.5]], "input x is no array: .*inhomogeneous"),
        (None, "object"),
        ({"x": samples(1), 5: samples(1)}, "has inputs x; unknown: 5$"),
        (np.zeros((1, 3, 4, 6), np.uint8), "input x is uint8, but the model stores no preprocessing"),
        (samples(1) * np.nan, "tensor x holds NaN"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(given, message):
    """A user's mistake must be one line that names the input."""
    with Model(requantised_copy()) as model, pytest.raises(DataError, match=message):
        model.run(given)


def test_another_configuration_is_refused_before_it_runs():
    """A program for other memory sizes would compute nonsense."""
    other = Config(**{**as_dict(preset("tiny")), "ring_words": 256})
    with pytest.raises(ArtifactError, match=r"compiled for tiny; the device has ring_words 256, not 512"):
        Model(requantised_copy(), device=EmulatorDevice(other, 1 << 20))


def test_a_program_for_another_depth_is_refused():
    """The array would add blocks that are not a set, from decks that the program does not know; the user must learn what to do."""
    deep = preset("tinyx2")
    alike = Config(**{**as_dict(preset("tiny")), "depth": 2})  # the ring's size apart, all else is equal
    with pytest.raises(ArtifactError, match=r"the device has depth 2, not 1: compile it again for that"):
        Model(requantised_copy(), device=EmulatorDevice(alike, 1 << 20))
    with pytest.raises(ArtifactError, match=r"depth 2, not 1: compile it again with --config tinyx2"):
        Model(requantised_copy(), device=EmulatorDevice(deep, 1 << 20))


def test_an_error_names_cause_write_and_layer():
    """A reader of the error would have to count writes to find the layer."""
    artifact = requantised_copy()
    bad = np.frombuffer(artifact.program.program, "<u4").reshape(-1, 2).copy()
    index = int(np.flatnonzero(bad[:, 0] == offset("VECTOR_BLOCKS"))[0])
    bad[index, 1] = 0
    message = rf"illegal_value at offset 0x[0-9a-f]+ \(VECTOR_BLOCKS\) at program write {index} of {len(bad)}, layer copy"
    damaged = replace(artifact, pieces=(replace(artifact.program, program=bad.tobytes()),))
    with Model(damaged) as model, pytest.raises(RunError, match=message):
        model.run(samples(1))


def test_what_was_not_measured_is_none():
    """The emulator has no clock, so its figures must not show zeros."""
    with Model(requantised_copy()) as model:
        model.run(samples(1))
    assert model.last["cycles"] is None
    assert model.last["ddr_read_bytes"] is None
    assert model.last["fps_at_300mhz"] is None
    assert model.last["layers"][0]["stalls"] is None
    assert model.last["batch"] == 2
    assert model.last["wall_seconds"] > 0


def test_a_device_that_was_given_stays_open_and_runs_the_next_model():
    """Long test runs put many artifacts on one device in turn."""
    device, x = EmulatorDevice(preset("tiny"), 1 << 20), samples(2)
    for batch in (1, 2):
        with Model(requantised_copy(batch=batch), device=device) as model:
            assert np.array_equal(model.run(x), golden(x))
    assert writes("store")[-1][0] == offset("STORE_GO")


BORDERS = {  # tensors that the CPU parts share with the model and the accelerator: nodes, outputs
    "the head makes a model output": ("s = Softmax <axis=1> (x) c = Conv (s, w)", "s", "c"),
    "the head makes it, with a tail": ("s = Softmax <axis=1> (x) c = Conv (s, w) y = Softmax <axis=1> (c)", "y", "s"),
    "the head feeds the accelerator only": ("s = Softmax <axis=1> (x) c = Conv (s, w) y = Softmax <axis=1> (c)", "y"),
    "a port is a model input": ("s = Softmax <axis=1> (x) c = Conv (x, w)", "c", "s"),
    "ports from head and model": (
        "s = Softmax <axis=1> (x) a = Conv (s, w) b = Conv (x, w) y = Softmax <axis=1> (a)",
        "y",
        "s",
        "b",
    ),
    "the tail reads a model input": ("c = Conv (x, w) t = Softmax <axis=1> (c) y = Concat <axis=1> (t, x)", "y", "c"),
    "the tail reads the head": (
        "s = Softmax <axis=1> (x) c = Conv (s, w) t = Softmax <axis=1> (c) y = Concat <axis=1> (t, s)",
        "y",
    ),
}


@pytest.mark.parametrize("onnxruntime_runs", [True, False])
@pytest.mark.parametrize("case", BORDERS)
def test_cpu_parts_get_what_they_read_and_give_what_they_make(case, onnxruntime_runs, monkeypatch):
    """A tensor may belong to the head, the accelerator and the user at once; every output must equal onnxruntime's."""
    nodes, *outputs = BORDERS[case]
    rng = np.random.default_rng(7)
    text = f"""<ir_version: 8, opset_import: ["": 17]>
        g (float[N,3,4,5] x) => ({", ".join(f"float[N,{6 if 'Concat' in nodes and y == 'y' else 3},4,5] {y}" for y in outputs)})
        {{ {nodes} }}"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(rng.normal(size=(3, 3, 1, 1)).astype(np.float32), "w"))
    quantised = quantise_model(model, {"x": rng.uniform(-1, 1, (20, 3, 4, 5)).astype(np.float32)})[0]
    artifact = compile_model(quantised, preset("tiny"), batch=2)
    x = rng.uniform(-1, 1, (3, 3, 4, 5)).astype(np.float32)
    wanted = onnxruntime.InferenceSession(quantised.SerializeToString()).run(outputs, {"x": x})
    if not onnxruntime_runs:
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with Model(artifact, check=True) as opened:
        found = opened.run({"x": x})
    assert list(found) == outputs
    step = max(port["scale"] for piece in artifact.programs for port in piece.manifest["inputs"] + piece.manifest["outputs"])
    for name, y in zip(outputs, wanted, strict=True):
        assert found[name].shape == y.shape
        assert np.abs(found[name] - y).max() < 1.5 * step, name


@pytest.mark.parametrize("onnxruntime_runs", [True, False])
def test_classes_are_whole_numbers_in_a_file_too(onnxruntime_runs, monkeypatch, tmp_path):
    """onnxruntime gives integers, which index a list of names; float32 holds none beyond 2^24."""
    text = """<ir_version: 8, opset_import: ["": 17]>
        g (float[N,3,4,5] x) => (int64[N,1,4,5] best, float[N,3,4,5] c)
        { c = Conv (x, w) best = ArgMax <axis=1> (c) }"""
    rng = np.random.default_rng(7)
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(rng.normal(size=(3, 3, 1, 1)).astype(np.float32), "w"))
    x = rng.uniform(-1, 1, (3, 3, 4, 5)).astype(np.float32)
    artifact = compile_model(quantise_model(model, {"x": x})[0], preset("tiny"))
    if not onnxruntime_runs:
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with Model(artifact, check=True) as opened:
        found = opened.run({"x": x})
    assert (found["best"].dtype, found["c"].dtype) == (np.int64, np.float32)
    assert np.array_equal(found["best"], found["c"].argmax(axis=1, keepdims=True))
    save(artifact, tmp_path / "m.cnna")
    np.save(tmp_path / "x.npy", x)
    files = ["--input", str(tmp_path / "x.npy"), "-o", str(tmp_path / "y.npz")]
    assert main(["run", str(tmp_path / "m.cnna"), "--device", "emulator", "--check", *files]) == 0
    with np.load(tmp_path / "y.npz") as written:
        assert all(written[name].dtype == y.dtype and np.array_equal(written[name], y) for name, y in found.items())
