"""Weights as codes into books: reference, emulator and RTL are equal to the bit, and what they save and need is as promised."""

from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest

from cnna import InferenceSession
from cnna.cli.main import main
from cnna.compiler.compile import compile_graph, compile_model
from cnna.compiler.frontend.onnx_import import load_model
from cnna.host.device.accelerator import Accelerator
from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.spec.artifact import save
from cnna.spec.codebook import CODES
from cnna.spec.config import PRESETS
from cnna.spec.errors import ArtifactError
from cnna.spec.program.commands import commands

from . import networks
from .agreement import BOOKS, Case, agree, agree_emulated, case_of
from .compiler.quantise import test_books
from .configurations import CODED

TINY, FOUR_PORTS, _, DEEP = BOOKS
COUNT = 30


def cases(config, seed, first=0, count=COUNT):
    """Cases of fully connected layers."""
    return [case_of(config, "coded", seed * 1000 + first + number) for number in range(count)]


def coded(piece):
    """How many of a program's commands bring codes."""
    return sum(command.engine == "weight" and command.f.code == CODES for command in commands(piece.program))


@pytest.mark.parametrize("config", [*BOOKS, replace(PRESETS["zcu102"], codebook=True)], ids=lambda config: config.name)
def test_emulator_equals_reference(config, seed):
    """A row would be decoded with another row's book, or a chunk's books come behind its codes."""
    made = cases(config, seed)
    assert sum(coded(case.piece) > 0 for case in made) > COUNT // 3, "too few of these layers are coded"
    for case in made:
        agree_emulated(case)


@pytest.mark.cosim
def test_rtl_equals_emulator_equals_reference(seed, rtl):
    """The decoder would write a pair of beats over another, or ports mix their books; other layers would suffer from either."""
    _agree_with_other_layers(CODED, seed, rtl)


@pytest.mark.slow
def test_rtl_equals_emulator_equals_reference_with_one_port(seed, rtl):
    """As above, where one port has all books."""
    _agree_with_other_layers(TINY, seed, rtl)


def _agree_with_other_layers(config, seed, rtl):
    for case in [*cases(config, seed), Case(config, "network", seed * 1000), *(Case(config, "layer", n) for n in range(10))]:
        agree(case, rtl(config))


@pytest.mark.cosim
def test_a_run_says_when_its_codes_came(seed, rtl):
    """A run would end in an error, since books and codes give the rings other beats than plain weights do."""
    case = next(case for case in cases(CODED, seed) if coded(case.piece))
    agree(case, rtl(CODED))
    spans = rtl(CODED).weights(case.piece)
    assert len(spans) == sum(command.engine == "weight" for command in commands(case.piece.program))
    assert all(begin <= end for begin, end in spans)


@pytest.mark.slow
@pytest.mark.parametrize("config", [CODED, DEEP, FOUR_PORTS], ids=lambda config: config.name)
def test_rtl_equals_emulator_equals_reference_on_more(config, seed, rtl):
    """Three and four ports, rows of two blocks, and networks around the layers."""
    more = [Case(config, kind, seed * 1000 + number) for kind, count in (("layer", 60), ("network", 8)) for number in range(count)]
    for case in [*cases(config, seed, count=4 * COUNT), *more]:
        agree(case, rtl(config))


def test_codes_halve_what_weights_take(seed):
    """Codes would not pay: the accelerator would bring as many bytes as before, or take as many clocks."""
    b = networks.Builder(np.random.default_rng(seed), "large")
    b.fully_connected(b.input(64, 8, 8), 128)
    graph = b.graph()
    (name,) = [node.op.weights for node in graph.nodes]
    few = replace(graph, constants={**graph.constants, name: graph.constants[name] // 16 * 16})
    plain, codes = PRESETS["zcu102"], replace(PRESETS["zcu102"], codebook=True)
    program = {key: compile_graph(few, config) for key, config in (("plain", plain), ("codes", codes))}
    assert len(program["codes"].constants) < 0.52 * len(program["plain"].constants)
    assert program["codes"].predicted().cycles < 0.65 * program["plain"].predicted().cycles
    assert compile_graph(graph, codes).constants == compile_graph(graph, plain).constants, "256 values are no book"


@pytest.mark.parametrize("indices", [None, onnx.TensorProto.UINT8, onnx.TensorProto.UINT4], ids=["int8", "uint8", "uint4"])
def test_books_that_a_model_gathers_from_are_codes_too(indices, tmp_path):
    """Other tools write a book for each channel and gather the weights from it; the layer would come as int8, or not at all."""
    rng = np.random.default_rng(6)
    books = np.sort(rng.integers(-127, 128, (20, 16)), axis=1).astype(np.int8)
    codes = rng.integers(0, 16, (20, 256)).astype(np.uint8)
    make, tensor = onnx.helper.make_node, onnx.numpy_helper.from_array
    constants = {"xs": np.float32(0.05), "xz": np.int8(3), "ws": np.full(20, 0.01, np.float32), "wz": np.zeros(20, np.int8)}
    constants |= {"ys": np.float32(2), "yz": np.int8(0)}
    tensors = [tensor(np.asarray(value), name) for name, value in constants.items()]
    if indices is None:
        tensors.append(tensor(np.take_along_axis(books, codes.astype(np.int64), axis=1), "w"))
        nodes = []
    else:
        tensors += [tensor(books, "books"), onnx.helper.make_tensor("codes", indices, codes.shape, codes.reshape(-1).tolist())]
        nodes = [make("Cast", ["codes"], ["places"], to=onnx.TensorProto.INT64)]
        nodes.append(make("GatherElements", ["books", "places"], ["w"], axis=1))
    nodes += [
        make("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        make("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
        make("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0),
        make("Gemm", ["xd", "wd"], ["s"], transB=1),
        make("QuantizeLinear", ["s", "ys", "yz"], ["yq"]),
        make("DequantizeLinear", ["yq", "ys", "yz"], ["y"]),
    ]
    ends = [onnx.helper.make_tensor_value_info(name, 1, [1, size]) for name, size in (("x", 256), ("y", 20))]
    graph = onnx.helper.make_graph(nodes, "gathered", ends[:1], ends[1:], tensors)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    artifact = compile_model(load_model(tmp_path / "m.onnx"), TINY)
    (piece,) = artifact.programs
    assert coded(piece) == 3, "of 20 channels, 8 a chunk"
    feeds = {"x": rng.normal(0, 3, (1, 256)).astype(np.float32)}
    wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)[0]
    save(artifact, tmp_path / "m.cnna")
    with InferenceSession(tmp_path / "m.cnna", device="emulator") as session:
        found = session.run(None, feeds)[0]
    assert np.abs(found - wanted).max() <= 2, "a step of the output at most"


def test_from_a_float_model_to_answers(tmp_path, capsys):
    """The option would change nothing, or nobody would be told which layers it changed and which come as codes."""
    model = test_books.network()
    onnx.save(model, tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", **test_books.samples(model))

    def cnna(*arguments):
        assert main([str(argument) for argument in arguments]) == 0
        return capsys.readouterr().out

    quantize = ("quantize", tmp_path / "m.onnx", "--calib", tmp_path / "x.npz", "--fc-bits")
    cnna(*quantize, "auto", "-o", tmp_path / "auto.onnx")
    said = cnna(*quantize, 4, "-o", tmp_path / "q.onnx")
    assert "weights of 4 bits: " in said
    answers = []
    for config in ("tiny", "tiny,codebook=1"):
        said = cnna("compile", tmp_path / "q.onnx", "--config", config, "-o", tmp_path / "m.cnna")
        said += cnna("report", tmp_path / "m.cnna")
        assert said.count("weights come as codes of 4 bits in ") == (2 if config != "tiny" else 0)
        cnna("run", tmp_path / "m.cnna", "--input", tmp_path / "x.npz", "--device", "emulator", "-o", tmp_path / "y.npz")
        answers.append(np.load(tmp_path / "y.npz")["y"])
    assert np.array_equal(*answers)


def test_a_program_with_codes_is_refused_where_no_decoder_is():
    """It would stop with an illegal register, and nobody would know why."""
    case = next(case for case in cases(TINY, 1) if coded(case.piece))
    with pytest.raises(ArtifactError, match="codebook 0, not 1: compile it again with --config tiny"):
        Accelerator(EmulatorDevice(PRESETS["tiny"]), case.piece)


def test_a_decoder_plays_programs_without_codes():
    """All older artifacts would have to be compiled again."""
    case = Case(PRESETS["tiny"], "coded", 1)
    answers = Accelerator(EmulatorDevice(TINY), case.piece).run(case.inputs)
    assert all(np.array_equal(answers[name], case.golden[name]) for name in case.graph.outputs)
