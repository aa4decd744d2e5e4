"""Hand-written register programs for the emulator's tests: a builder of writes, how words lie in memory, and a run."""

import numpy as np

from cnna.spec.config import Config, preset
from cnna.spec.regmap import REGISTERS, command_writes, offset

from ..configurations import ODD

CONFIGS = [preset("tiny"), ODD, preset("zcu102")]
SRC, DST, RES = 16, 6000, 9000  # feature words


class Program:
    """Collects register writes. `go(engine, **members)` adds one command, with members named as in `regmap.command_fields`."""

    def __init__(self) -> None:
        self.writes: list[tuple[int, int]] = []

    def write(self, name: str, value: int) -> None:
        self.writes.append((REGISTERS[name].offset, value & 0xFFFFFFFF))

    def go(self, engine: str, **members: int) -> None:
        self.writes += command_writes(engine, members)

    def bytes(self) -> bytes:
        return np.array(self.writes, "<u4").tobytes()


def to_words(config: Config, x: np.ndarray, zero: int) -> np.ndarray:
    """int8 [images, C, H, W] as words int8 [images, blocks, H * W, ci]: channels beyond the last are `zero`."""
    images, channels, height, width = x.shape
    blocks = -(-channels // config.ci)
    full = np.full((images, blocks * config.ci, height, width), zero, np.int8)
    full[:, :channels] = x
    return full.reshape(images, blocks, config.ci, height * width).transpose(0, 1, 3, 2)


def from_words(words: np.ndarray, channels: int, height: int, width: int) -> np.ndarray:
    """The inverse of `to_words`: words [images, blocks, H * W, ci] to [images, channels, H, W]."""
    images, blocks, _, ci = words.shape
    return words.transpose(0, 1, 3, 2).reshape(images, blocks * ci, height, width)[:, :channels]


def pack_params(offset: np.ndarray, factor: np.ndarray, shift: np.ndarray) -> bytes:
    """Requantiser parameters as ring bytes, 8 for each channel."""
    word = (np.asarray(offset, np.int64) & 0xFFFFFFFF) | (np.asarray(factor, np.int64) & 0x3FFFFFF) << 32
    return (word.astype(np.uint64) | np.asarray(shift, np.uint64) << np.uint64(58)).tobytes()


def stripes(config: Config, ring_words: bytes) -> bytes:
    """A weight stream as it lies in DDR: port 0's stripe of all ring words, then port 1's, ..."""
    words = np.frombuffer(ring_words, np.uint8).reshape(-1, config.ports, config.stripe_bytes)
    return np.ascontiguousarray(words.transpose(1, 0, 2)).tobytes()


def source_members(height, width, out, images, kernel, stride, pads, dilation, words_image, pad):
    """Members of a dense source walk, [images][blocks][height * width] words from SRC on."""
    ho, wo = out
    row = stride * width - wo * stride
    return {
        "src": (SRC - pads[0] * width - pads[1]) & 0xFFFFF,
        "src_x": stride,
        "src_row": row,
        "src_image": words_image - ho * stride * width,
        "src_kx": dilation,
        "src_ky": dilation * width,
        "src_block": height * width,
        "out_width": wo,
        "out_height": ho,
        "images": images,
        "kernel_width": kernel[1],
        "kernel_height": kernel[0],
        "first_x": -pads[1],
        "first_y": -pads[0],
        "stride_x": stride,
        "stride_y": stride,
        "stride_dilation_x": dilation,
        "stride_dilation_y": dilation,
        "in_width": width,
        "in_height": height,
        "pad": pad,
    }


def run(device, program, constants=b"", x=None):
    """Plays a program with `constants` in segment 0 and words x in feature memory from SRC on."""
    if x is not None:
        device.state.features[SRC : SRC + x.size // device.config.ci] = x.view(np.uint8).reshape(-1, device.config.ci)
    program.write("END", 1)
    base, segment = device.allocate(len(program.bytes())), device.allocate(max(1, len(constants)))
    device.store(base, program.bytes())
    device.store(segment, constants)
    for name, address in (("PROG_BASE", base), ("SEG_CONSTANT", segment)):
        device.write(offset(f"{name}_LO"), address & 0xFFFFFFFF)
        device.write(offset(f"{name}_HI"), address >> 32)
    device.write(offset("PROG_COUNT"), len(program.writes))
    device.write(offset("CTRL"), 1)
    device.wait()


def plane(device, start, images, blocks, size, channels):
    """A dense plane of feature memory as [images, channels, H, W]."""
    words = device.state.features[start : start + images * blocks * size[0] * size[1]].view(np.int8)
    return from_words(words.reshape(images, blocks, -1, device.config.ci), channels, *size)
