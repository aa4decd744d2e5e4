// What the generated tables say of the models: packed.cpp defines the values, and models.cpp reads them.
#ifndef CNNA_PACKED_H
#define CNNA_PACKED_H

#include "cnna_models.h"

namespace cnna_packed {

// Bytes among those of all members, which begin at `members`.
struct Span {
    size_t from, bytes;
};

// A port of a program. segment: 2 is the input's, 3 the output's. offset: in it. table: int8 [channels][256]; no bytes where there is none.
struct Port {
    cnna_port how;
    size_t offset;
    int64_t channels, rows, columns;
    Span table;
};

// What becomes of an output port. output: of the model. softmax: as in cnna_job.
struct Tail {
    int64_t output, softmax;
};

enum { CONSTANT, WORKSPACE, INPUT, OUTPUT, SEGMENTS };

// One artifact. segments: bytes, in whole beats. run_limit: the register's word.
struct Program {
    int64_t batch;
    size_t segments[SEGMENTS];
    Span constants, writes;
    uint32_t run_limit;
    const Port *in, *out;
    const Tail *tails;  // of each output port
};

// Golden answers. inputs, outputs: of all samples. exact: whether an output must be equal to the bit.
struct Golden {
    int64_t samples;
    const Span *inputs, *outputs;
    const bool *exact;
};

// programs: in ascending order of their batches.
struct Model {
    cnna_models_entry entry;
    int64_t programs;
    const Program *program;
    Golden golden;
};

// A register that must hold a word, but for the bits that are not of the mask.
struct Word {
    uint32_t offset, mask, word;
};

extern const uint8_t members[];
extern const int64_t MODELS;
extern const Model inside[];

// The register map.
extern const int64_t CAPABILITIES, COUNTERS, PROGRESS;
extern const Word capabilities[];
extern const uint32_t counters[], progress[], low[SEGMENTS], size[SEGMENTS];
extern const uint32_t program_low, program_count, run_limit, ctrl, start, soft_reset, status, done, error;

}  // namespace cnna_packed

#endif
