// Models inside a library: places their programs in the accelerator's memory, and has the run loop answer samples.
//
// The tables (packed.h) say all that the artifacts' manifests say; nothing is parsed here.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "cnna_models.h"
#include "packed.h"

namespace {

using namespace cnna_packed;

constexpr size_t PAGE = 4096;
constexpr int64_t SLOTS = 2;  // one batch is packed while another runs
constexpr int64_t BAND_BYTES = 1 << 14;
constexpr double RELATIVE = 1e-4, ABSOLUTE = 1e-5;  // by which floats of a CPU may differ from golden ones
constexpr double SETTLE_SECONDS = 20, FOREVER_SECONDS = 3600;

size_t paged(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

size_t bytes_of(const Program &program) {
    const size_t moved = paged(program.segments[INPUT]) + paged(program.segments[OUTPUT]);
    return paged(program.segments[CONSTANT]) + paged(program.segments[WORKSPACE]) + paged(program.writes.bytes) + SLOTS * moved;
}

size_t bytes_each(int64_t type) { return type == CNNA_FLOAT32 ? 4 : 1; }

size_t bytes_of(const cnna_models_tensor &tensor) { return static_cast<size_t>(tensor.elements) * bytes_each(tensor.type); }

// A program in the accelerator's memory, as the run loop wants it.
struct Placed {
    std::vector<cnna_port> in, out;
    std::vector<cnna_write> words;
    std::vector<uint8_t *> memories;
};

// Golden answers that differ: NaN equals NaN.
bool differs(float have, float want, bool exact) {
    if (std::isnan(have) || std::isnan(want)) return std::isnan(have) != std::isnan(want);
    if (exact || have == want) return have != want;
    return !(std::fabs(static_cast<double>(have) - static_cast<double>(want)) <= ABSOLUTE + RELATIVE * std::fabs(static_cast<double>(want)));
}

}  // namespace

struct cnna_models {
  public:
    explicit cnna_models(const cnna_models_board &board) : board_(board) {}

    ~cnna_models() { cnna_loop_close(loop_); }

    cnna_models(const cnna_models &) = delete;
    cnna_models &operator=(const cnna_models &) = delete;

    int open() {
        for (int64_t number = 0; number < CAPABILITIES; ++number)
            if ((read(capabilities[number].offset) & capabilities[number].mask) != capabilities[number].word) return CNNA_MODELS_OTHER;
        if (board_.bytes < cnna_models_bytes() || board_.address % PAGE) return CNNA_MODELS_ROOM;
        if (!settled()) return CNNA_MODELS_STUCK;  // before anything is placed: an earlier program may still write
        for (int64_t model = 0; model < MODELS; ++model) {
            firsts_.push_back(programs_.size());
            for (int64_t number = 0; number < inside[model].programs; ++number) place(inside[model].program[number], inside[model].entry);
        }
        return start_loop();
    }

    int run(int64_t number, int64_t samples, const void *const *inputs, const uint8_t *pictures, void *const *outputs) {
        if (number < 0 || number >= MODELS || samples < 1) return CNNA_ARGUMENT;
        const Model &model = inside[number];
        if (pictures && !model.entry.pictures) return CNNA_ARGUMENT;
        if (!loop_)
            if (const int code = start_loop(); code != CNNA_OK) return code;
        std::deque<Batch> under_way;  // lives until the loop's thread has ended, which writes into them
        const int code = run_all(model, firsts_[static_cast<size_t>(number)], samples, inputs, pictures, outputs, under_way);
        if (code == CNNA_OK) return code;
        cnna_loop_close(loop_);
        loop_ = nullptr;
        return settled() ? code : static_cast<int>(CNNA_MODELS_STUCK);
    }

    int test() {
        for (int64_t number = 0; number < MODELS; ++number) {
            const Model &model = inside[number];
            const Golden &golden = model.golden;
            if (!golden.samples) continue;
            std::vector<const void *> inputs;
            std::vector<std::vector<uint8_t>> answers;
            std::vector<void *> places;
            for (int64_t input = 0; input < model.entry.inputs; ++input) inputs.push_back(members + golden.inputs[input].from);
            for (int64_t output = 0; output < model.entry.outputs; ++output) answers.emplace_back(golden.outputs[output].bytes);
            for (auto &answer : answers) places.push_back(answer.data());
            if (const int code = run(number, golden.samples, inputs.data(), nullptr, places.data()); code != CNNA_OK) return code;
            for (size_t output = 0; output < answers.size(); ++output)
                if (!same(model.entry.output[output], answers[output], members + golden.outputs[output].from, golden.exact[output]))
                    return CNNA_MODELS_WRONG;
        }
        return CNNA_OK;
    }

  private:
    static bool same(const cnna_models_tensor &tensor, const std::vector<uint8_t> &have, const uint8_t *want, bool exact) {
        if (tensor.type != CNNA_FLOAT32) return std::memcmp(have.data(), want, have.size()) == 0;
        for (size_t at = 0; at < have.size(); at += sizeof(float)) {
            float one, other;
            std::memcpy(&one, have.data() + at, sizeof one), std::memcpy(&other, want + at, sizeof other);
            if (differs(one, other, exact)) return false;
        }
        return true;
    }

    // One batch: what the run loop copies when it is handed over.
    struct Batch {
        std::vector<cnna_tensor> inputs;
        std::vector<const int8_t *> tables;
        std::vector<void *> outputs;
        std::vector<int64_t> types, softmax;
        std::vector<size_t> elements;
        std::vector<std::vector<uint8_t>> rest;  // answers of a batch that is not full, beside the caller's arrays
        int64_t samples;
    };

    int run_all(const Model &model, size_t first, int64_t samples, const void *const *inputs, const uint8_t *pictures, void *const *outputs,
                std::deque<Batch> &under_way) {
        int64_t given = 0, answered = 0;
        while (answered < samples) {
            while (given < samples && under_way.size() < static_cast<size_t>(SLOTS) + 1) {
                const size_t chosen = program_for(model, samples - given);
                under_way.push_back(batch_of(model, model.program[chosen], given, std::min(model.program[chosen].batch, samples - given), inputs, pictures, outputs));
                if (const int code = hand_over(under_way.back(), first + chosen); code != CNNA_OK) return code;
                given += under_way.back().samples;
            }
            int64_t ended;
            const int code = cnna_loop_wait(loop_, jobs_, FOREVER_SECONDS, &ended);
            if (code != CNNA_OK) return code;
            for (; jobs_ < ended; ++jobs_) {
                copy_rest(model, under_way.front(), answered, outputs);
                answered += under_way.front().samples;
                under_way.pop_front();
            }
        }
        return CNNA_OK;
    }

    // The smallest batch that holds all of them, else the largest.
    static size_t program_for(const Model &model, int64_t samples) {
        size_t chosen = 0;
        while (chosen + 1 < static_cast<size_t>(model.programs) && model.program[chosen].batch < samples) ++chosen;
        return chosen;
    }

    Batch batch_of(const Model &model, const Program &program, int64_t from, int64_t samples, const void *const *inputs, const uint8_t *pictures,
                   void *const *outputs) {
        Batch made{};
        made.samples = samples;
        for (int64_t input = 0; input < model.entry.inputs; ++input) {
            const Port &port = program.in[input];
            const int64_t planes = port.rows * port.columns;
            const cnna_models_tensor &tensor = model.entry.input[input];
            if (pictures) {
                const uint8_t *first = pictures + static_cast<size_t>(from) * static_cast<size_t>(tensor.elements);
                made.inputs.push_back({first, CNNA_UINT8, {samples, port.channels, port.rows, port.columns},
                                       {port.channels * planes, 1, port.columns * port.channels, port.channels}});
            } else {
                const int64_t each = static_cast<int64_t>(bytes_each(tensor.type));
                const uint8_t *first = static_cast<const uint8_t *>(inputs[input]) + static_cast<size_t>(from) * bytes_of(tensor);
                made.inputs.push_back({first, tensor.type, {samples, port.channels, port.rows, port.columns},
                                       {port.channels * planes * each, planes * each, port.columns * each, each}});
            }
            made.tables.push_back(port.table.bytes ? reinterpret_cast<const int8_t *>(members + port.table.from) : nullptr);
        }
        for (int64_t port = 0; port < model.entry.outputs; ++port) {
            const Tail &tail = program.tails[port];
            const cnna_models_tensor &tensor = model.entry.output[tail.output];
            const size_t whole = static_cast<size_t>(program.batch) * bytes_of(tensor);
            uint8_t *place = static_cast<uint8_t *>(outputs[tail.output]) + static_cast<size_t>(from) * bytes_of(tensor);
            made.rest.emplace_back(samples < program.batch ? whole : 0);
            made.outputs.push_back(samples < program.batch ? made.rest.back().data() : place);
            made.types.push_back(tensor.type), made.softmax.push_back(tail.softmax);
            made.elements.push_back(static_cast<size_t>(program.batch * tensor.elements));
        }
        return made;
    }

    void copy_rest(const Model &model, const Batch &batch, int64_t from, void *const *outputs) const {
        for (size_t port = 0; port < batch.rest.size(); ++port) {
            if (batch.rest[port].empty()) continue;
            const int64_t output = model.program[0].tails[port].output;
            const size_t each = bytes_of(model.entry.output[output]);
            uint8_t *place = static_cast<uint8_t *>(outputs[output]) + static_cast<size_t>(from) * each;
            std::memcpy(place, batch.rest[port].data(), static_cast<size_t>(batch.samples) * each);
        }
    }

    int hand_over(Batch &batch, size_t program) {
        cnna_job job{};
        job.program = static_cast<int64_t>(program);
        job.inputs = batch.inputs.data(), job.tables = batch.tables.data();
        job.outputs = batch.outputs.data(), job.types = batch.types.data(), job.elements = batch.elements.data();
        job.softmax = batch.softmax.data(), job.counters = counted_.data();
        return cnna_loop_submit(loop_, &job);
    }

    uint32_t read(uint32_t offset) const { return board_.registers[offset / 4]; }

    // Resets an accelerator that has run or runs. Whether it is idle then.
    bool settled() {
        const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(SETTLE_SECONDS);
        if (read(status) == 0) return true;
        board_.registers[ctrl / 4] = soft_reset;
        while (read(status) != 0) {
            if (std::chrono::steady_clock::now() > until) return false;
            std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
        return true;
    }

    // Takes the next pages. address: what the accelerator calls them.
    uint8_t *take(size_t bytes, uint64_t *address) {
        uint8_t *memory = board_.memory;
        *address = board_.address;
        board_.memory += paged(bytes), board_.address += paged(bytes);
        return memory;
    }

    static void point(std::vector<cnna_write> &words, uint32_t to, uint64_t address) {
        words.push_back({to, static_cast<uint32_t>(address)});
        words.push_back({to + 4, static_cast<uint32_t>(address >> 32)});
    }

    void written(uint8_t *memory, Span from) {
        std::memcpy(memory, members + from.from, from.bytes);
        if (board_.cache.clean) board_.cache.clean(board_.cache.context, memory, from.bytes);
    }

    void place(const Program &program, const cnna_models_entry &entry) {
        uint64_t addresses[SEGMENTS], writes;
        uint8_t *memory[SEGMENTS];
        for (int segment : {CONSTANT, WORKSPACE}) memory[segment] = take(program.segments[segment], &addresses[segment]);
        written(memory[CONSTANT], program.constants);
        written(take(program.writes.bytes, &writes), program.writes);
        Placed made;
        for (int64_t port = 0; port < entry.inputs; ++port) made.in.push_back(program.in[port].how);
        for (int64_t port = 0; port < entry.outputs; ++port) made.out.push_back(program.out[port].how);
        for (int64_t slot = 0; slot < SLOTS; ++slot) {
            for (int segment : {INPUT, OUTPUT}) memory[segment] = take(program.segments[segment], &addresses[segment]);
            if (board_.cache.invalidate) board_.cache.invalidate(board_.cache.context, memory[OUTPUT], program.segments[OUTPUT]);
            for (int segment = 0; segment < SEGMENTS; ++segment) {
                point(made.words, low[segment], addresses[segment]);
                made.words.push_back({size[segment], static_cast<uint32_t>(program.segments[segment])});
            }
            point(made.words, program_low, writes);
            made.words.push_back({program_count, static_cast<uint32_t>(program.writes.bytes / 8)});
            made.words.push_back({run_limit, program.run_limit});
            for (size_t port = 0; port < made.in.size(); ++port) made.memories.push_back(memory[INPUT] + program.in[port].offset);
            for (size_t port = 0; port < made.out.size(); ++port) made.memories.push_back(memory[OUTPUT] + program.out[port].offset);
        }
        batches_.push_back(program.batch);
        programs_.push_back(std::move(made));
    }

    int start_loop() {
        std::vector<cnna_program> programs;
        for (size_t number = 0; number < programs_.size(); ++number) {
            const Placed &one = programs_[number];
            cnna_program made{};
            made.images = batches_[number];
            made.inputs = static_cast<int64_t>(one.in.size()), made.outputs = static_cast<int64_t>(one.out.size());
            made.slots = SLOTS, made.writes = static_cast<int64_t>(one.words.size()) / SLOTS;
            made.in = one.in.data(), made.out = one.out.data(), made.words = one.words.data(), made.memories = one.memories.data();
            programs.push_back(made);
        }
        cnna_device device{};
        device.registers = board_.registers;
        device.programs = static_cast<int64_t>(programs.size()), device.program = programs.data();
        device.counters = COUNTERS, device.counter_offsets = counters;
        device.progress = PROGRESS, device.progress_offsets = progress;
        device.ctrl = ctrl, device.start = start, device.status = status, device.done = done, device.error = error;
        device.uio = board_.uio, device.threads = std::max<int64_t>(1, board_.threads), device.band_bytes = BAND_BYTES;
        device.timeout_seconds = board_.timeout_seconds, device.cache = board_.cache;
        counted_.assign(static_cast<size_t>(COUNTERS), 0);
        jobs_ = 0;
        return cnna_loop_open(&device, &loop_);
    }

    cnna_models_board board_;  // memory, address: what is left
    std::vector<size_t> firsts_;
    std::vector<Placed> programs_;
    std::vector<int64_t> batches_;
    std::vector<uint32_t> counted_;
    cnna_loop *loop_ = nullptr;
    int64_t jobs_ = 0;  // that have ended
};

const char *cnna_models_why(int code) {
    switch (code) {
    case CNNA_OK: return "all is well";
    case CNNA_NAN: return "a float is NaN, for which int8 has no value";
    case CNNA_BOUNDS: return "an array is too small";
    case CNNA_ARGUMENT: return "a number is out of range, or the model takes no pictures";
    case CNNA_MEMORY: return "no memory left";
    case CNNA_STOPPED: return "the accelerator stopped with an error";
    case CNNA_STANDSTILL: return "a run makes no progress";
    case CNNA_LATE: return "a run takes too long";
    case CNNA_EXPIRED: return "the time to wait is over";
    case CNNA_MODELS_OTHER: return "the registers are not those of the accelerator that the models were compiled for";
    case CNNA_MODELS_WRONG: return "an answer to a golden sample differs";
    case CNNA_MODELS_ROOM: return "the memory is too small, or not aligned to 4,096 bytes";
    case CNNA_MODELS_STUCK: return "the accelerator does not become idle after a reset";
    default: return "an unknown code";
    }
}

int64_t cnna_models_count(void) { return MODELS; }

const cnna_models_entry *cnna_models_at(int64_t number) { return number < 0 || number >= MODELS ? nullptr : &inside[number].entry; }

int64_t cnna_models_find(const char *name) {
    for (int64_t number = 0; name && number < MODELS; ++number)
        if (std::strcmp(inside[number].entry.name, name) == 0) return number;
    return -1;
}

size_t cnna_models_bytes(void) {
    size_t found = 0;
    for (int64_t model = 0; model < MODELS; ++model)
        for (int64_t number = 0; number < inside[model].programs; ++number) found += bytes_of(inside[model].program[number]);
    return found;
}

int cnna_models_open(const cnna_models_board *board, cnna_models **made) {
    if (!board || !made || !board->registers || !board->memory) return CNNA_ARGUMENT;
    try {
        auto opened = std::make_unique<cnna_models>(*board);
        const int code = opened->open();
        if (code == CNNA_OK) *made = opened.release();
        return code;
    } catch (const std::bad_alloc &) {
        return CNNA_MEMORY;
    }
}

int cnna_models_run(cnna_models *models, int64_t model, int64_t samples, const void *const *inputs, void *const *outputs) {
    if (!models || !inputs || !outputs) return CNNA_ARGUMENT;
    try {
        return models->run(model, samples, inputs, nullptr, outputs);
    } catch (const std::bad_alloc &) {
        return CNNA_MEMORY;
    }
}

int cnna_models_run_pictures(cnna_models *models, int64_t model, int64_t samples, const uint8_t *pictures, void *const *outputs) {
    if (!models || !pictures || !outputs) return CNNA_ARGUMENT;
    try {
        return models->run(model, samples, nullptr, pictures, outputs);
    } catch (const std::bad_alloc &) {
        return CNNA_MEMORY;
    }
}

int cnna_models_test(cnna_models *models) {
    if (!models) return CNNA_ARGUMENT;
    try {
        return models->test();
    } catch (const std::bad_alloc &) {
        return CNNA_MEMORY;
    }
}

void cnna_models_close(cnna_models *models) { delete models; }
