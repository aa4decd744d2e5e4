// What the run loop keeps of programs and jobs: copies, so that a caller may free its structs.
#ifndef CNNA_LOOP_JOBS_H
#define CNNA_LOOP_JOBS_H

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cnna_host.h"
#include "pack.h"

namespace cnna {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Of an image of a port that is not folded.
inline size_t elements(const cnna_port &port) {
    return static_cast<size_t>(port.folded[0] * port.folded[1] * port.folded[2]);
}

struct Program {
    explicit Program(const cnna_program &program)
        : images(program.images), slots(static_cast<size_t>(program.slots)), writes(static_cast<size_t>(program.writes)),
          in(program.in, program.in + program.inputs), out(program.out, program.out + program.outputs),
          words(program.words, program.words + slots * writes), memories(program.memories, program.memories + slots * (in.size() + out.size())), packers(in.size()) {}

    // Where a port's bytes are; outputs are numbered after the inputs.
    uint8_t *memory(size_t slot, size_t port) const { return memories[slot * (in.size() + out.size()) + port]; }
    size_t bytes(const cnna_port &port) const { return static_cast<size_t>(images * port.image_bytes); }

    int64_t images;
    size_t slots, writes;
    std::vector<cnna_port> in, out;
    std::vector<cnna_write> words;
    std::vector<uint8_t *> memories;
    std::vector<std::vector<BandPacker>> packers;  // of each input's bands
    size_t next_slot = 0;
    Seconds usual{};  // what the last run took
};

struct Job {
    struct Input {
        cnna_tensor tensor;
        const int8_t *table;
    };
    struct Output {
        void *place;
        int64_t type;
        size_t elements;
        int64_t softmax;  // values of a row; 0: there is none
    };

    struct Detector {
        cnna_heads heads;
        cnna_wanted wanted;
        std::vector<int64_t> ports;
    };

    size_t program = 0, slot = 0;
    std::vector<Input> inputs;
    std::vector<Output> outputs;
    std::optional<Detector> detector;  // whose detections are the outputs
    uint32_t *counters = nullptr;
    bool packed = false, started = false;
    bool queued = false;  // and not started by a plain start
    bool timed = true;    // whether `began` is about when it began
    bool done = false;   // STATUS has said so
    bool noted = false;  // so it is, its counters are read, and STATUS.done is clear again
    int code = CNNA_OK;  // of packing, and then of unpacking
    Clock::time_point began{};
};

}  // namespace cnna

#endif
