// The accelerator for a bare-metal style host: registers through a volatile pointer, DDR through a pointer. It uses no operating
// system. docs/artifact.md is the manifest, docs/registers.md the registers, host/native/cnna_host.h the library that packs and unpacks.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cnna_host.h"
#include "cnna_registers.h"
#include "tensor.h"

// The index of a register in 32-bit words: the header's struct is packed, and a compiler may access its members byte by byte.
#define CNNA_AT(name) (offsetof(cnna_t, name) / 4)

// A tensor [C, H, W] of a batch. `as`: where its bytes lie from `offset` of its segment on, and what a folded pixel holds.
struct Port {
    cnna_port as{};
    std::string name;
    int64_t shape[3], batch;
    size_t offset, bytes;

    // room: bytes of its segment.
    Port(const Json &entry, int64_t ci, int64_t batch_, int64_t room)
        : name(entry["name"].text), batch(batch_), offset(static_cast<size_t>(static_cast<int64_t>(entry["offset"]))) {
        for (size_t axis : {0, 1, 2}) as.folded[axis] = shape[axis] = entry["shape"].at(axis);
        as.ci = ci, as.zero = entry["zero"], as.scale = static_cast<float>(entry["scale"].number);
        as.image_bytes = entry["image_bytes"], as.block_bytes = entry["block_bytes"], as.row_bytes = entry["row_bytes"];
        const int64_t from = static_cast<int64_t>(offset);
        if (as.image_bytes < 0 || as.image_bytes > room / batch || from < 0 || from > room - batch * as.image_bytes)
            fail("port " + name + " of the manifest lies outside of its segment");
        bytes = static_cast<size_t>(batch * as.image_bytes);
        for (size_t axis : {0, 1}) as.step[axis] = as.span[axis] = 1;
        const Json *fold = entry.find("fold");
        if (!fold) return;
        const Json &how = *fold;
        for (size_t axis : {0, 1, 2}) as.folded[axis] = how["shape"].at(axis);
        for (size_t axis : {0, 1})
            as.step[axis] = how["step"].at(axis), as.span[axis] = how["span"].at(axis), as.before[axis] = how["before"].at(axis);
    }

    size_t elements() const { return elements_of({batch, shape[0], shape[1], shape[2]}); }
};

inline void check(int code, const std::string &doing) {
    if (code == CNNA_NAN) fail("the input holds NaN, for which int8 has no value");
    if (code != CNNA_OK) fail(doing + ": code " + std::to_string(code) + " (cnna_host.h)");
}

// Writes a tensor's samples, as many as the batch, to the port's bytes. float32 is divided by the scale and rounded; int8 and uint8
// are the model's own integers, which stay as they are. For uint8 pictures cnna_pack takes a table of another kind.
inline void pack(const Port &port, const Tensor &given, uint8_t *segment) {
    const bool whole = given.type == INT8 || given.type == UINT8;
    const Tensor x = whole ? given : given.as_float();
    if (x.elements() != port.elements()) fail("tensor " + port.name + " has shape " + told(x.shape) + ", which does not fit its port");
    std::vector<int8_t> table;
    for (int64_t channel = 0; given.type == UINT8 && channel < port.shape[0]; ++channel)
        for (int value = 0; value < 256; ++value) table.push_back(static_cast<int8_t>(value - 128));
    const int64_t item = static_cast<int64_t>(x.item()), row = port.shape[2] * item, plane = port.shape[1] * row;
    const int64_t type = given.type == INT8 ? CNNA_INT8 : given.type == UINT8 ? CNNA_UINT8 : CNNA_FLOAT32;
    const cnna_tensor tensor = {
        x.data.data(), type, {port.batch, port.shape[0], port.shape[1], port.shape[2]}, {port.shape[0] * plane, plane, row, item}};
    const int8_t *values = table.empty() ? nullptr : table.data();
    check(cnna_pack(&port.as, &tensor, values, port.batch, segment + port.offset, port.bytes), "packing " + port.name);
}

// The port's tensor: float32, or the model's own integers.
inline Tensor unpack(const Port &port, const uint8_t *segment, Type type) {
    Tensor made(type == INT8 || type == UINT8 ? type : FLOAT32, {port.batch, port.shape[0], port.shape[1], port.shape[2]});
    const int64_t kind = made.type == FLOAT32 ? CNNA_FLOAT32 : CNNA_INT8;
    check(cnna_unpack(&port.as, segment + port.offset, port.bytes, port.batch, kind, made.data.data(), made.elements()), "unpacking " + port.name);
    if (made.type == UINT8)
        for (uint8_t &value : made.data) value ^= 128;
    return made;
}

constexpr uint32_t QUEUE_MINOR = 6;  // of VERSION, from which an accelerator has a queue of runs

// A program in DDR: where its input and output segments are, and the words that a start needs in the registers.
struct Program {
    uint8_t *input = nullptr, *output = nullptr;
    std::vector<std::pair<size_t, uint32_t>> words;
};

class Accelerator {
  public:
    // registers: the first of them. ddr: memory that the accelerator sees at bus address `address`.
    Accelerator(volatile uint32_t *registers, uint8_t *ddr, uint64_t address, size_t ddr_bytes)
        : registers_(registers), ddr_(ddr), address_(address), left_(ddr_bytes) {
        if (read(CNNA_AT(ID)) != CNNA__ID__MAGIC_reset) fail("there is no accelerator: ID does not read CNNA");
        if ((read(CNNA_AT(VERSION)) & CNNA__VERSION__MINOR_bm) >= QUEUE_MINOR)
            places_ = (read(CNNA_AT(QUEUE)) & CNNA__QUEUE__PLACES_bm) >> CNNA__QUEUE__PLACES_bp;
    }

    // Compares the sizes of the array with those that the model was compiled for.
    void check(const Json &config) {
        uint32_t array = read(CNNA_AT(ARRAY));
        auto field = [array](uint32_t mask, int position) { return static_cast<int64_t>((array & mask) >> position); };
        if (field(CNNA__ARRAY__PIX_bm, CNNA__ARRAY__PIX_bp) != config["pix"] ||
            field(CNNA__ARRAY__CI_bm, CNNA__ARRAY__CI_bp) != config["ci"] ||
            field(CNNA__ARRAY__CO_bm, CNNA__ARRAY__CO_bp) != config["co"] ||
            field(CNNA__ARRAY__PORTS_bm, CNNA__ARRAY__PORTS_bp) != config["ports"])
            fail("the model was compiled for another accelerator, " + config["name"].text);
    }

    // Runs that may be on it at once: with a queue of runs (docs/queue.md), one goes on and the others wait behind it.
    size_t slots() const { return 1 + places_; }

    // Places a program of one piece, so many times: its constants, its writes and its workspace once, and room for an input and an
    // output each. `Program::words` is what a start needs in the registers.
    std::vector<Program> place(const Json &piece, const Bytes &constants, const Bytes &writes, size_t times) {
        const Json &segments = piece["segments"];
        Program shared;
        segment(shared, CNNA_AT(SEG_CONSTANT_LO), CNNA_AT(SEG_CONSTANT_BYTES), constants.size(), &constants);
        segment(shared, CNNA_AT(SEG_WORKSPACE_LO), CNNA_AT(SEG_WORKSPACE_BYTES), size_of(segments["workspace"]), nullptr);
        segment(shared, CNNA_AT(PROG_BASE_LO), 0, writes.size(), &writes);
        shared.words.push_back({CNNA_AT(PROG_COUNT), static_cast<uint32_t>(writes.size() / 8)});
        std::vector<Program> made(times, shared);
        for (Program &one : made) {
            one.input = segment(one, CNNA_AT(SEG_INPUT_LO), CNNA_AT(SEG_INPUT_BYTES), size_of(segments["input"]), nullptr);
            one.output = segment(one, CNNA_AT(SEG_OUTPUT_LO), CNNA_AT(SEG_OUTPUT_BYTES), size_of(segments["output"]), nullptr);
        }
        return made;
    }

    // An accelerator that has run, or runs, is reset: after that STATUS reads 0, and nothing waits. Call it before memory is written.
    void make_idle() {
        if (read(CNNA_AT(STATUS)) != 0) {
            write(CNNA_AT(CTRL), CNNA__CTRL__SOFT_RESET_bm);
            while (read(CNNA_AT(STATUS)) != 0) {}
        }
        if (places_) finished_ = read(CNNA_AT(FINISHED));
    }

    // Starts a program. Without a queue the accelerator must be idle; with one, up to `slots()` runs may be on it. Where DDR is cached,
    // flush what was written before.
    void start(const Program &program) {
        for (const auto &word : program.words) write(word.first, word.second);
        std::atomic_thread_fence(std::memory_order_seq_cst);  // input and program are in DDR before the start
        const uint32_t pulse = places_ ? CNNA__CTRL__QUEUE_bm : CNNA__CTRL__START_bm;
        write(CNNA_AT(CTRL), pulse);
        while (places_ && read(CNNA_AT(CTRL)) & pulse) {}  // its words are taken; hardware reads 0 at once
    }

    // Waits for the end of the run that was started first and not waited for. Where DDR is cached, invalidate its `output` after.
    // An error stops a run, and drops those behind it.
    void wait() {
        while (!ended())
            if (read(CNNA_AT(STATUS)) & CNNA__STATUS__ERROR_bm && !ended())
                fail("the accelerator stopped: cause " + std::to_string(read(CNNA_AT(ERROR)) & CNNA__ERROR__CAUSE_bm) + " at write " +
                     std::to_string(read(CNNA_AT(PC))) + " (docs/registers.md, Numbers)");
        ++finished_;
        std::atomic_thread_fence(std::memory_order_seq_cst);
    }

    // The clocks of the run that `wait` has just waited for; 0: it counts none. known: whether they are. The next run's hide those of a
    // run once it has ended or was stopped.
    uint32_t cycles(bool &known) {
        const uint32_t found = read(CNNA_AT(CYCLES));
        known = !places_ || !found || !(ended() || read(CNNA_AT(STATUS)) & CNNA__STATUS__ERROR_bm);
        return found;
    }

  private:
    // Whether a run has ended that was not waited for.
    bool ended() { return places_ ? read(CNNA_AT(FINISHED)) != finished_ : read(CNNA_AT(STATUS)) & CNNA__STATUS__DONE_bm; }

    uint32_t read(size_t index) { return registers_[index]; }
    void write(size_t index, uint32_t word) { registers_[index] = word; }

    static size_t size_of(const Json &bytes) {
        const int64_t found = bytes;
        if (found < 0 || found > INT64_C(1) << 40) fail("the manifest has a segment of an impossible size");
        return static_cast<size_t>(found);
    }

    // Takes the next 4096-byte aligned memory. The program's words tell the accelerator its address and, in whole beats, its size.
    uint8_t *segment(Program &program, size_t low, size_t size_register, size_t bytes, const Bytes *content) {
        size_t whole = std::max<size_t>(16, (bytes + 15) / 16 * 16), taken = (whole + 4095) / 4096 * 4096;
        if (taken > left_) fail("the model does not fit into DDR");
        uint8_t *memory = ddr_;
        program.words.push_back({low, static_cast<uint32_t>(address_)});
        program.words.push_back({low + 1, static_cast<uint32_t>(address_ >> 32)});
        if (size_register) program.words.push_back({size_register, static_cast<uint32_t>(whole)});
        if (content && bytes) std::memcpy(memory, content->data(), bytes);  // an empty vector has no address
        ddr_ += taken, address_ += taken, left_ -= taken;
        return memory;
    }

    volatile uint32_t *registers_;
    uint8_t *ddr_;
    uint64_t address_;
    size_t left_, places_ = 0;
    uint32_t finished_ = 0;  // FINISHED, when all runs so far were waited for
};
