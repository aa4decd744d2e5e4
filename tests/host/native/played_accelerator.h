// The accelerator of loop_rig.cpp: memory of which it and the host have a copy each, the registers, and the thread that plays it.
#ifndef CNNA_TESTS_PLAYED_ACCELERATOR_H
#define CNNA_TESTS_PLAYED_ACCELERATOR_H

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "lines.h"

namespace {

constexpr uint32_t CTRL = 0, STATUS = 4, CYCLES = 8, FINISHED = 12, SLOT = 16, IMAGE = 20, WORDS = 6;  // IMAGE: nobody writes to it
constexpr uint32_t START = 1, DONE = 2, ERROR = 4, MARK = 8;  // MARK: the accelerator wrote STATUS, not the host
constexpr uint32_t QUEUE = 2, LIVE = 4, PLACES = 2;  // of CTRL; starts that may wait
constexpr uint32_t LATE = 0xffffffe0;                // what FINISHED has counted before: it passes its end soon
constexpr size_t LINE = 64, MOST_SLOTS = 4;
constexpr int64_t THREADS = 3;

// begin: bytes of a port's first line before it. columns: of the picture.
struct Layout {
    size_t begin;
    int64_t columns;
};
constexpr Layout TOGETHER{48, 7}, APART{0, 16};

// What the host may do: runs that it has memory for, and whether the accelerator has a queue.
struct Way {
    size_t slots;
    bool queue;
};
constexpr Way PLAIN{2, false}, QUEUED{3, true}, DEEP{4, true};  // DEEP: more than may be on the accelerator at once

thread_local bool spared = false;  // whether this thread is the rig's own, outside of the library

[[noreturn]] void fail(const char *what, int64_t number) {
    std::fprintf(stderr, "run %lld: %s\n", static_cast<long long>(number), what);
    std::_Exit(1);  // two threads may fail at once
}

// Both copies of the memory of one port of one slot. Its lines belong to it alone.
struct Memory {
    Memory(size_t bytes, size_t begin) : size(bytes), host_(bytes + 3 * LINE), device_(bytes + 3 * LINE) {
        const auto at = reinterpret_cast<uintptr_t>(host_.data());
        begin_ = (at + LINE - 1) / LINE * LINE + begin - at;
    }
    size_t size;
    std::mutex moving;  // a cache moves a line as a whole
    uint8_t *host() { return host_.data() + begin_; }
    uint8_t *device() { return device_.data() + begin_; }
    bool holds(const uint8_t *at) { return at >= host() && at < host() + size; }

    // Carries lines from one copy to the other, but for number `left_out`.
    void carry(bool to_device, const uint8_t *memory, size_t bytes, size_t left_out = SIZE_MAX) {
        std::lock_guard<std::mutex> lock(moving);
        cnna::each_line(memory, bytes, LINE, [&](uintptr_t line) {
            const size_t at = line / LINE * LINE - reinterpret_cast<uintptr_t>(host_.data());
            if (left_out-- == 0) return;
            std::memcpy((to_device ? device_ : host_).data() + at, (to_device ? host_ : device_).data() + at, LINE);
        });
    }

  private:
    std::vector<uint8_t> host_, device_;
    size_t begin_;
};

struct Board {
    alignas(uint64_t) uint32_t registers[WORDS] = {0, 0, 0, LATE};
    std::deque<Memory> inputs, outputs;  // which a mutex cannot leave
    std::string forget;
    std::atomic<bool> over{false};
    std::atomic<int> errors{0}, queued{0}, late{0};  // queued: behind another; late: after an error
    std::atomic<bool> resetting{false};
    bool had_error = false;  // before the reset
    uint64_t seed;
    size_t calls = 0;

    size_t begin;
    bool queue = false;
    std::mutex calling;  // the threads that pack clean at once

    Board(size_t in, size_t out, std::string which, uint64_t seed_, size_t begin_) : forget(std::move(which)), seed(seed_), begin(begin_) {
        for (size_t slot = 0; slot < MOST_SLOTS; ++slot) inputs.emplace_back(in, begin), outputs.emplace_back(out, begin);
    }
    Memory &holder(const uint8_t *at) {
        for (auto *all : {&inputs, &outputs})
            for (Memory &one : *all)
                if (one.holds(at)) return one;
        fail("a cache call for memory of nobody", 0);
    }
    // The number of the line that a call forgets.
    size_t left_out(const char *which, size_t bytes) {
        std::lock_guard<std::mutex> lock(calling);
        return forget == which ? calls++ % ((begin + bytes + LINE - 1) / LINE) : SIZE_MAX;
    }
    uint32_t load(uint32_t offset) { return __atomic_load_n(&registers[offset / 4], __ATOMIC_ACQUIRE); }
    // A run is counted and its counters are shown in one clock.
    void count(uint32_t cycles, uint32_t finished) {
        uint64_t both;
        const uint32_t words[] = {cycles, finished};
        std::memcpy(&both, words, sizeof both);
        __atomic_store_n(reinterpret_cast<uint64_t *>(&registers[CYCLES / 4]), both, __ATOMIC_RELEASE);
    }
    void store(uint32_t offset, uint32_t word) { __atomic_store_n(&registers[offset / 4], word, __ATOMIC_RELEASE); }

    // What a driver does after a failure. Returns whether STATUS.error was set.
    bool reset() {
        resetting = true;
        while (resetting) std::this_thread::yield();
        return had_error;
    }
};

void clean(void *context, const uint8_t *memory, size_t bytes) {
    auto &board = *static_cast<Board *>(context);
    board.holder(memory).carry(true, memory, bytes, board.left_out("forget-clean", bytes));
}

void invalidate(void *context, const uint8_t *memory, size_t bytes) {
    auto &board = *static_cast<Board *>(context);
    board.holder(memory).carry(false, memory, bytes, board.left_out("forget-invalidate", bytes));
}

// What a run on these bytes counts.
uint32_t tag(const uint8_t *in, size_t bytes) {
    uint32_t found = 1;
    for (size_t i = 0; i < bytes; ++i) found = found * 31 + in[i];
    return found ? found : 1;
}

void answer(const uint8_t *in, size_t in_bytes, uint8_t *out, size_t out_bytes) {
    for (size_t i = 0; i < out_bytes; ++i)
        out[i] = static_cast<uint8_t>(in[i * 7 % in_bytes] + 3 * in[(i * 31 + in_bytes - 1) % in_bytes] + i);
}

// The accelerator's own thread: what STATUS holds, the run that goes on, and those that wait.
class Player {
  public:
    explicit Player(Board &board) : board_(board), random_(board.seed), finished_(board.load(FINISHED)) {}

    void play() {
        spared = true;
        while (!board_.over) {
            if (board_.resetting) reset();
            if (!(board_.load(STATUS) & MARK)) status_ &= ~DONE, show();  // the host cleared what it saw
            if (const uint32_t asked = board_.load(CTRL)) control(asked);
            if (busy_ && Clock::now() >= until_)
                end();
            else
                std::this_thread::yield();
        }
    }

  private:
    using Clock = std::chrono::steady_clock;

    void show() { board_.store(STATUS, MARK | status_); }

    void reset() {
        board_.had_error = status_ & ERROR;
        status_ = 0, busy_ = false, waiting_.clear();
        board_.store(CTRL, 0), show();
        board_.resetting = false;
    }

    void control(uint32_t asked) {
        const uint32_t slot = board_.load(SLOT);
        if (asked & START) {
            if (busy_) fail("a start beside a run", finished_);
            status_ = 0, show(), begin(slot);
        } else if (asked & QUEUE && status_ & ERROR) {  // which came before the host has seen it: the start is dropped
            ++board_.late;
        } else if (asked & QUEUE) {
            if (waiting_.size() == PLACES) fail("no place is free", finished_);
            board_.queued += busy_;
            busy_ ? waiting_.push_back(slot) : begin(slot);
        }
        board_.store(CTRL, 0);  // the start is taken: the host may set registers again
    }

    void begin(uint32_t slot) {
        Memory &out = board_.outputs[slot];
        // a line of the output is fetched into the cache too early, with what it held before
        if (random_() % 2) out.carry(false, out.host() + random_() % out.size, 1);
        busy_ = true, slot_ = slot;
        until_ = Clock::now() + std::chrono::microseconds(random_() % 3 ? 0 : random_() % 60);
    }

    void end() {
        busy_ = false;
        if (random_() % 37 == 0) {
            ++board_.errors;
            status_ = ERROR, waiting_.clear(), show();
            return;
        }
        Memory &in = board_.inputs[slot_], &out = board_.outputs[slot_];
        uint32_t cycles;
        {
            std::scoped_lock lock(in.moving, out.moving);
            answer(in.device(), in.size, out.device(), out.size);
            cycles = tag(in.device(), in.size);
        }
        status_ = DONE;
        if (board_.queue) show();  // the host looks at what is shown last
        board_.count(cycles, ++finished_);
        if (!board_.queue) show();
        if (waiting_.empty()) return;
        const uint32_t next = waiting_.front();
        waiting_.pop_front(), begin(next);
    }

    Board &board_;
    std::mt19937_64 random_;
    std::deque<uint32_t> waiting_;  // slots
    uint32_t status_ = 0, finished_, slot_ = 0;
    bool busy_ = false;
    Clock::time_point until_{};
};

}  // namespace

#endif
