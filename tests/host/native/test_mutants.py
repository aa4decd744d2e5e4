"""Faults of one line each, put into the library's sources: the run loop's rig, or the replay of its kernels, must find them."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from cnna.host.native import build

from .programs import ARM, HERE, NATIVE, objects, words
from .test_replay import records

SECONDS, RUNS, RECORDS = 120, 300, 150
PROGRAMS = {"rig": "loop_rig.cpp", "team": "team_rig.cpp", "replay": "replay.cpp"}


class Mutant(NamedTuple):
    """A fault. text: what stands in the file, once; instead: what the fault makes of it. found_by: the program that must fail."""

    name: str
    file: str
    text: str
    instead: str
    found_by: str = "replay"


CLEAN, CLEAN_BAND = "cache_.clean(cache_.context, one.memory, one.bytes)", "own.clean(own.context, first, count)"
INVALIDATE = "cache.invalidate(device_.cache.context, memory, bytes)"
ANSWERS = "const uint8_t *memory = program.memory(job.slot, program.in.size() + output);"
LINE = "to[i] = value_of(from[i], Step{slopes_[at], biases_[at]}, shift_);"
CLEARED = "write(device_.status, device_.done);"
MUTANTS = (
    Mutant("the last line is not cleaned", "loop_packing.cpp", CLEAN, f"{CLEAN[:-1]} - 64)", "rig"),
    Mutant("the first line is not cleaned", "loop_packing.cpp", CLEAN, CLEAN.replace("one.memory", "one.memory + 64"), "rig"),
    Mutant("the last line of a band is not cleaned", "loop_packing.cpp", CLEAN_BAND, f"{CLEAN_BAND[:-1]} - 64)", "rig"),
    Mutant(
        "nobody cleans where bands share lines", "loop_packing.cpp", "if (cache_.clean && !one.bands.apart)", "if (false)", "rig"
    ),
    Mutant("the last part is not waited for", "team.cpp", "left = left_.load(std::memory_order_acquire)", "left = 0", "team"),
    Mutant(
        "a caller that sleeps for ever",
        "team.cpp",
        "std::memory_order_acq_rel) == 1) wake",
        "std::memory_order_acq_rel) == 0) wake",
        "team",
    ),
    Mutant(
        "the row where a band ends",
        "pack.cpp",
        "std::min(images * height, begin + bands.rows)",
        "std::min(images * height, begin + bands.rows - 1)",
        "rig",
    ),
    Mutant("a turn that is another's", "loop_turn.cpp", "flock(turn.file, LOCK_EX | LOCK_NB) == 0", "true", "rig"),
    Mutant("a turn that was another's", "loop_turn.cpp", " && !std::memcmp(found, turn_.holder, bytes)", "", "rig"),
    Mutant("another image", "loop_accelerator.cpp", "read(one.offset) == one.word", "true || read(one.offset) == one.word", "rig"),
    Mutant("a turn is kept after its run", "loop_turn.cpp", "if (locked_) (void)flock(turn_.file, LOCK_UN);", "", "rig"),
    Mutant("the last line is not invalidated", "loop.cpp", INVALIDATE, f"{INVALIDATE[:-1]} - 64)", "rig"),
    Mutant("the answer of the slot before", "loop.cpp", ANSWERS, ANSWERS.replace("job.slot", "1 - job.slot"), "rig"),
    Mutant(
        "the words of a class that nobody has invalidated",
        "detect_scan.cpp",
        "tensors.look(grid.classes[0], grid.classes[1], labels, cell);",
        "",
        "rig",
    ),
    Mutant(
        "the words of a box that nobody has invalidated",
        "detect.cpp",
        "tensors.look(one.head, one.channel, one.bins, cell);",
        "",
        "rig",
    ),
    Mutant(
        "a block that a scan reads is not invalidated",
        "loop_detect.cpp",
        "if (whole_[head][block]) fresh(",
        "if (false) fresh(",
        "rig",
    ),
    Mutant(
        "the detections of the slot before",
        "loop_detect.cpp",
        "program_.memory(job_.slot, program_",
        "program_.memory(1 - job_.slot, program_",
        "rig",
    ),
    Mutant("the first class of a word", "detect_scan.cpp", "what.channel <= first + lane &&", "what.channel < first + lane &&"),
    Mutant("a cell of sixteen that is passed over", "detect_scan.cpp", "next < LANES; ++next) {", "next < LANES - 1; ++next) {"),
    Mutant("a gap between blocks", "detect.h", "channel / one.word * one.block", "channel / one.word * (one.block / 16 * 16)"),
    Mutant(
        "the registers of the other slot",
        "loop_accelerator.cpp",
        "words[job.slot * program",
        "words[(1 - job.slot) * program",
        "rig",
    ),
    Mutant("one slot for all runs", "loop_packing.cpp", "(program.next_slot + 1) %", "(program.next_slot + 0) %", "rig"),
    Mutant("done is not cleared", "loop_accelerator.cpp", CLEARED, "", "rig"),
    Mutant("the counters of the run behind it", "loop_accelerator.cpp", "unnoted() > 1)", "false)", "rig"),
    Mutant("an end that is noted twice", "loop_accelerator.cpp", "    ++finished_;\n", "", "rig"),
    Mutant(
        "runs that were counted before", "loop_accelerator.cpp", "finished_ = read(device_.finished);", "finished_ += 0;", "rig"
    ),
    Mutant("the inputs of a run that waits", "loop.cpp", ") < programs_[program].slots;", ") < 99;", "rig"),
    Mutant(
        "a start that has no place",
        "loop.cpp",
        "running_.size() >= accelerator_.most()",
        "running_.size() > accelerator_.most()",
        "rig",
    ),
    Mutant(
        "a run that was dropped is lost",
        "loop.cpp",
        "running_) on(*job);",
        "running_) if (job == running_.front()) on(*job);",
        "rig",
    ),
    Mutant(
        "a run that failed is not run again",
        "loop.cpp",
        "running_) on(*job);",
        "running_) job->done = true;",
        "rig",
    ),
    Mutant("a table off by one", "runs.cpp", "to[i] = table[from[i]];", "to[i] = table[(from[i] + 1) & 255];"),
    Mutant(
        "the table of the channel before",
        "tensor_rows.cpp",
        "look_up(from, table_ + channel * TABLE, to, count);",
        "look_up(from, table_ + (channel ? channel - 1 : 0) * TABLE, to, count);",
    ),
    Mutant(
        "a line that is off by one at one value",
        "steps.cpp",
        LINE,
        "to[i] = static_cast<int8_t>(" + LINE[8:-1] + " + (from[i] == 200));",
    ),
    Mutant("a line where there is none", "steps.cpp", "&& same(table, found[channel], shift_)", "|| true"),
    Mutant(
        "the line of the channel before", "steps.cpp", "biases_[i] = found[i % channels]", "biases_[i] = found[(i + 1) % channels]"
    ),
    Mutant("two threads at the registers", "loop.cpp", "if (open_ || closing_ ||", "if (closing_ ||", "rig"),
    Mutant("a border row", "pack.cpp", "if (y < 0 || y >= height_)", "if (y < 0 || y >= height_ - 1)"),
    Mutant(
        "a row above the picture",
        "pack.cpp",
        "if (y < 0 || y >= height_) return",
        "y = std::max<int64_t>(0, y);\n        if (y >= height_) return",
    ),
    Mutant(
        "a border column", "pack.cpp", "outside_.assign(bytes, zero_);", "outside_.assign(bytes, static_cast<int8_t>(zero_ + 1));"
    ),
    Mutant("a gap behind a row", "pack.cpp", "if (port_.row_bytes > row_used)", "if (port_.row_bytes > row_used + 5)"),
    Mutant("the row of the picture before", "pack.cpp", "std::fill(holds_.begin(), holds_.end(), -1);", ""),
    Mutant("a half is rounded up", "runs.cpp", "(steps + ROUNDER) - ROUNDER)", "std::floor(steps + 0.5f))"),
    Mutant(
        "the zero point is left out",
        "runs.cpp",
        "(static_cast<float>(from[i]) - shift)",
        "(static_cast<float>(from[i]) - shift * 0)",
    ),
    Mutant(
        "the last channels of a block",
        "unpack.cpp",
        "for (int64_t channel = 0; channel < channels; ++channel) store16(",
        "for (int64_t channel = 0; channel < channels - 1; ++channel) store16(",
    ),
    Mutant("the last column", "unpack.cpp", "at < columns; ++at)", "at < columns - 1; ++at)"),
    Mutant(
        "a least integer that is one too high",
        "detect.h",
        "(scores[value - 1] < least)) --value;",
        "(scores[value - 2] < least)) --value;",
    ),
    Mutant(
        "an objectness that is the neighbour's",
        "detect_scan.cpp",
        "one * sure[there[cell * there_word]]",
        "one * sure[there[cell ? (cell - 1) * there_word : 0]]",
    ),
    Mutant(
        "the last cells of a tile",
        "detect_scan.cpp",
        "lane < LANES; ++lane)\n                    if (most[part][lane] >= limit)",
        "lane < LANES - 1; ++lane)\n                    if (most[part][lane] >= limit)",
    ),
    Mutant("the cells behind the last tile", "detect_scan.cpp", "for (; cell < cells; ++cell) hit(cell, limit);", ""),
    Mutant(
        "of equal classes the last",
        "detect_scan.cpp",
        "score(other, cell) > score(label, cell)",
        "score(other, cell) >= score(label, cell)",
    ),
    Mutant("sixteen cells that are passed over", "detect_scan.cpp", "return halves[0] | halves[1];", "return halves[0];"),
    Mutant("a neighbour behind the edge", "detect_scan.cpp", "std::min(grid.columns - 1, x + 1)", "std::min(grid.columns - 1, x)"),
    Mutant("a peak beside its like", "detect_scan.cpp", "u]] > scores[q[cell]]", "u]] >= scores[q[cell]] && (v != y || u != x)"),
    Mutant(
        "a background that is a class",
        "detect_scan.cpp",
        "greatest64(classes + cells + cell, labels",
        "greatest64(classes + cell, labels",
    ),
    Mutant(
        "a prefilter that is too narrow",
        "detect_scan.cpp",
        "        distance = next;",
        "        distance = next;\n        if (next == 20) break;",
    ),
    Mutant(
        "a softmax without its background", "detect_scan.cpp", "double whole = scores[most - classes[cell]];", "double whole = 0;"
    ),
    Mutant(
        "sixteen distances that are passed over",
        "detect_scan.cpp",
        "quarters[0] | quarters[1] | quarters[2] | quarters[3]",
        "quarters[0] | quarters[1]",
    ),
    Mutant("areas that touch by a corner", "detect_areas.cpp", "std::min(cells.columns(), run.end + 1)", "run.end"),
    Mutant("a row in which an area may lie alone", "detect_areas.cpp", "row += LEAST_SIDE + 1", "row += LEAST_SIDE + 2"),
    Mutant("an area that is followed downwards alone", "detect_areas.cpp", "beside : {run.row - 1, ", "beside : {"),
    Mutant("an area's first run is not its first", "detect_areas.cpp", "std::sort(area.begin(), area.end());", ""),
    Mutant("a run that begins with its part", "detect_areas.cpp", "ones > lane && made", "ones > lane + 1 && made"),
    Mutant("a run that is taken twice", "detect_areas.cpp", "own = without(own, lane + 1 - ones, ones);", ""),
    Mutant("a byte of the word beside", "detect_areas.cpp", "words[2 * i], words[2 * i + 1]", "words[2 * i + 1], words[2 * i]"),
    Mutant("a part that another stands for", "detect_areas.cpp", "uint64_t{1} << part % MASK", "uint64_t{1} << part % (MASK / 2)"),
    Mutant(
        "the last cells of a row of words",
        "detect_areas.cpp",
        "count = std::min(PART, columns_ - first);",
        "count = std::min(PART, columns_ - first - 1);",
    ),
    Mutant(
        "a row of an area's cells that nobody has invalidated",
        "detect_areas.cpp",
        "tensors_.look(head_, channel_, 1, row * columns_, columns_);",
        "",
        "rig",
    ),
    Mutant(
        "cells of an area that nobody has invalidated",
        "detect_areas.cpp",
        "tensors_.look(head_, channel_, 1, row * columns_ + part * PART, std::min(PART, columns_ - part * PART));",
        "",
        "rig",
    ),
    Mutant("a box that grows too far", "detect_areas.cpp", "(2 * (wide + high))", "(wide + high)"),
    Mutant("a thin area", "detect_areas.cpp", "std::min(wide, high) < LEAST_SIDE", "std::min(wide, high) < LEAST_SIDE - 1"),
    Mutant("a row below the last", "resize.cpp", "std::min(next + i, rows - 1)", "std::min(next + i, rows - 2 + (rows == 1))"),
    Mutant("too few lines are kept", "resize.cpp", "kept = down.taps + ROWS", "kept = down.taps + ROWS - 2"),
    Mutant("the last byte of a row", "resize.cpp", "rows[row] + at, bytes - at)", "rows[row] + at, bytes - at - 1)"),
    Mutant(
        "a stretch that begins at its neighbour's",
        "resize.cpp",
        "filter_.first[begin]) * channels_;",
        "filter_.first[0]) * channels_;",
    ),
    Mutant(
        "weights of the pixel before",
        "resize.cpp",
        "weights.data() + begin * taps",
        "weights.data() + (begin ? begin - 1 : 0) * taps",
    ),
    Mutant(
        "a weight that is left out",
        "resize_filter.cpp",
        "while (!from[end - 1]) --end;",
        "while (from[end - 1] < 99 && end > 1) --end;",
    ),
    Mutant(
        "the places behind the last part",
        "resize.cpp",
        "std::memcpy(to + at, made, count - at);",
        "std::memcpy(to + at, made, count - at - 1);",
    ),
    Mutant("a row of the cells before", "detect_rows.cpp", "Line line{row * grid.columns,", "Line line{row / 2 * grid.columns,"),
    Mutant(
        "cells behind the last eight", "detect_rows.cpp", "for (; cell < count; ++cell, to", "for (; cell < count - 1; ++cell, to"
    ),
    Mutant(
        "an own output's greatest bin", "detect_rows.cpp", "most[cell] = std::max(most[cell], q[cell]);", "most[cell] = q[cell];"
    ),
    Mutant("a corner that is no middle", "detect_rows.cpp", "(low + high) * 0.5f", "low"),
    Mutant("corners in each other's place", "detect_rows.cpp", "rows.order[side] * rows.box_number", "side * rows.box_number"),
    Mutant("an own output's scale", "detect_rows.cpp", "/ rows.scale[side];", ";"),
    Mutant(
        "the class before", "detect_rows.cpp", "field[1] + number - there,", "field[1] + std::max<int64_t>(0, number - there - 1),"
    ),
    Mutant(
        "an own output's row above",
        "detect_rows.cpp",
        "one.down * static_cast<float>(row)",
        "one.down * static_cast<float>(row / 2)",
    ),
    Mutant("another class's double", "detect.cpp", "last[static_cast<size_t>(one.label)]", "last[0]"),
    Mutant(
        "a greatest bin that is not the last",
        "detect.cpp",
        "for (int64_t bin = 1; bin < bins; ++bin) most =",
        "for (int64_t bin = 1; bin < bins - 1; ++bin) most =",
    ),
    Mutant(
        "a box of the cell above",
        "detect.cpp",
        "column = one.cell % grid.columns;",
        "column = one.cell % grid.columns + (one.cell == 37);",
    ),
)
ALWAYS = (  # that the usual tests try: one of each kind
    "the last line is not cleaned",
    "the last line is not invalidated",
    "the answer of the slot before",
    "a table off by one",
    "a line that is off by one at one value",
    "two threads at the registers",
    "the inputs of a run that waits",
    "a border row",
    "a border column",
)
ARM_MUTANTS = (
    Mutant("the bias of the pixel before", "steps.cpp", "part[2 * v + 1], bias[h + 1]", "part[2 * v + 1], bias[h]"),
    Mutant("a quarter of a table", "runs.cpp", "vqtbx4q_u8(found, third, lesser)", "vqtbx4q_u8(found, third, less)"),
    Mutant(
        "two pixels in each other's place",
        "pack.cpp",
        "i + pixel * static_cast<size_t>(step)",
        "i + (1 - pixel) * static_cast<size_t>(step)",
    ),
    Mutant(
        "two colours in each other's place",
        "runs.cpp",
        "{vld1q_s8(planes + first), vld1q_s8(planes + pitch + first),",
        "{vld1q_s8(planes + pitch + first), vld1q_s8(planes + first),",
    ),
)


class Workshop:
    """The programs, built from objects of which a mutant replaces one."""

    def __init__(self, folder: Path, compiler: str) -> None:
        self.folder = folder
        self.call = words(compiler, flags := ["-O1", *(["-static"] if compiler == ARM else [])])
        self.runner = ["qemu-aarch64", "-cpu", "cortex-a53"] if compiler == ARM else []
        self.objects = {f"{path.stem}.cpp": path for path in objects(compiler, flags)}
        self.mains = {name: self.compiled(HERE / file, folder / f"main_{name}.o") for name, file in PROGRAMS.items()}
        (folder / "records").write_bytes(b"".join(records(RECORDS)))

    def compiled(self, source: Path, made: Path) -> Path:
        """The object of a source."""
        subprocess.run([*self.call, "-c", str(source), "-o", str(made)], check=True, timeout=SECONDS)
        return made

    def mutated(self, mutant: Mutant) -> dict[str, Path]:
        """The objects, with a fault in one. AssertionError: its text is not in the source, or not once."""
        text = (build.FOLDER / mutant.file).read_text()
        assert text.count(mutant.text) == 1, (
            f"{mutant.file} has {text.count(mutant.text)} times {mutant.text!r}: name the line anew"
        )
        if mutant.file.endswith(".h"):
            return self._mutated_header(mutant, text)
        source = self.folder / f"mutant_{mutant.file}"
        source.write_text("#include <cmath>\n" + text.replace(mutant.text, mutant.instead))
        return {**self.objects, mutant.file: self.compiled(source, source.with_suffix(".o"))}

    def _mutated_header(self, mutant: Mutant, text: str) -> dict[str, Path]:
        """The objects of the sources that read a header with a fault, copied beside it: that of their own folder comes first."""
        (self.folder / mutant.file).write_text(text.replace(mutant.text, mutant.instead))
        made = dict(self.objects)
        for path in build.sources():
            if path.suffix == ".cpp" and f'"{mutant.file}"' in path.read_text():
                source = self.folder / f"mutant_{path.name}"
                source.write_text(path.read_text())
                made[path.name] = self.compiled(source, source.with_suffix(".o"))
        (self.folder / mutant.file).unlink()
        return made

    def played(self, name: str, parts: dict[str, Path]) -> tuple[int, str]:
        """The exit code of a program from these objects, and what it printed last."""
        program = self.folder / name
        line = [*self.call, *map(str, parts.values()), str(self.mains[name]), "-o", str(program)]
        subprocess.run(line, check=True, timeout=SECONDS)
        words = [str(self.folder / "records")] if name == "replay" else [str(RUNS), "7"]
        done = subprocess.run([*self.runner, str(program), *words], capture_output=True, text=True, timeout=SECONDS, check=False)
        return done.returncode, (done.stdout + done.stderr)[-500:]


Make = Callable[[str], Workshop]


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """The workshop of a compiler, made at its first use. Without a fault, both programs must find none."""
    made: dict[str, Workshop] = {}

    def of(compiler: str) -> Workshop:
        if compiler not in made:
            for tool in (compiler, *(["qemu-aarch64"] if compiler == ARM else [])):
                assert shutil.which(tool), f"{tool} is missing: apt install g++-aarch64-linux-gnu qemu-user"
            made[compiler] = Workshop(tmp_path_factory.mktemp("workshop"), compiler)
            for name in PROGRAMS:
                code, said = made[compiler].played(name, made[compiler].objects)
                assert code == 0, said
        return made[compiler]

    return of


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(mutant, marks=() if mutant.name in ALWAYS else pytest.mark.slow) for mutant in MUTANTS],  # 2 s for each
    ids=[mutant.name for mutant in MUTANTS],
)
def test_a_fault_is_found(workshop: Make, mutant: Mutant) -> None:
    """Tests that pass with a fault in the code would let it in again."""
    shop = workshop(NATIVE)
    code, said = shop.played(mutant.found_by, shop.mutated(mutant))
    assert code == 1, f"{mutant.name}: nobody has found it: {said}"
    assert "run " in said or "record " in said, said


@pytest.mark.aarch64
@pytest.mark.parametrize("mutant", ARM_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_fault_of_a_boards_code_is_found(workshop: Make, mutant: Mutant) -> None:
    """NEON's forms of the kernels run on boards alone."""
    test_a_fault_is_found(lambda _: workshop(ARM), mutant)


def test_every_fault_has_its_line() -> None:
    """A line that was written anew would take its mutant away, and nobody notice before the slow tests."""
    for mutant in (*MUTANTS, *ARM_MUTANTS):
        text = (build.FOLDER / mutant.file).read_text()
        assert text.count(mutant.text) == 1, f"{mutant.file}: {mutant.text!r}"
    assert {mutant.name for mutant in MUTANTS} >= set(ALWAYS)
