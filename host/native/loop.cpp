// The run loop: one thread that packs run n + 1 while run n is on the accelerator, starts it at once when n ends, and unpacks n.
//
// The thread knows no words and no remedies. When a run fails it rests, with the accelerator as it is, so that Python can read the
// registers, say what happened, reset, and let it go on.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "checks.h"
#include "cnna_host.h"

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr Seconds LEAST_PAUSE{20e-6}, MOST_PAUSE{10e-3};  // between two looks at STATUS, where there is no interrupt
constexpr double PAUSE_PART = 1.0 / 16;                    // of the time that a run has taken so far, where none has ended yet
constexpr double LATE_PART = 1.0 / 64;                     // of that time, once it is known how long a run takes
constexpr double EARLY = 31.0 / 32;                        // of the time that the last run took: then it looks for the first time
constexpr unsigned long SLACK_NS = 1;                      // by which Linux may prolong a pause; by default these are 50 us
constexpr Seconds LOOK_AT_PROGRESS{0.2};
constexpr int MOST_MISSED = 2;  // interrupts that did not come: then STATUS is polled

// Accesses to registers are single and in order, as device memory is. Where a thread plays the accelerator, the thread sanitizer must
// see that they hand memory over.
#if defined(__SANITIZE_THREAD__)
constexpr int LOADS = __ATOMIC_ACQUIRE, STORES = __ATOMIC_RELEASE;
#else
constexpr int LOADS = __ATOMIC_RELAXED, STORES = __ATOMIC_RELAXED;
#endif

// All that was written before is in memory before anything after it.
void barrier() {
#if defined(__aarch64__)
    asm volatile("dsb sy" ::: "memory");
#elif !defined(__SANITIZE_THREAD__)
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace

struct cnna_loop {
  public:
    explicit cnna_loop(const cnna_device &device) : device_(device), programs_(device.program, device.program + device.programs) {
        counters_.assign(device.counter_offsets, device.counter_offsets + device.counters);
        progress_.assign(device.progress_offsets, device.progress_offsets + device.progress);
        for (const cnna_program &program : programs_) owned_.emplace_back(program);
        wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (wake_ < 0) throw std::bad_alloc();
        thread_ = std::thread([this] { work(); });
    }

    ~cnna_loop() {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            closing_ = true;
        }
        retried_.notify_all();
        wake();
        thread_.join();
        close(wake_);
    }

    cnna_loop(const cnna_loop &) = delete;
    cnna_loop &operator=(const cnna_loop &) = delete;

    int submit(const cnna_job &job) {
        if (job.program < 0 || job.program >= device_.programs) return CNNA_ARGUMENT;
        const cnna_program &program = programs_[static_cast<size_t>(job.program)];
        for (size_t output = 0; output < static_cast<size_t>(program.outputs); ++output) {
            if (job.types[output] != CNNA_INT8 && job.types[output] != CNNA_FLOAT32) return CNNA_ARGUMENT;
            const int64_t(&size)[3] = owned_[static_cast<size_t>(job.program)].out[output].folded;
            const auto wanted = static_cast<size_t>(program.images * size[0] * size[1] * size[2]);
            if (!job.outputs[output] || job.elements[output] < wanted) return CNNA_BOUNDS;
        }
        if (job.softmax)
            for (int64_t output = 0; output < program.outputs; ++output)
                if (job.softmax[output] < 0 || (job.softmax[output] && job.types[output] != CNNA_FLOAT32)) return CNNA_ARGUMENT;
        Job made;
        made.program = static_cast<size_t>(job.program);
        made.inputs.reserve(static_cast<size_t>(program.inputs)), made.outputs.reserve(static_cast<size_t>(program.outputs));
        for (int64_t port = 0; port < program.inputs; ++port) made.inputs.push_back({job.inputs[port], job.tables[port]});
        for (int64_t port = 0; port < program.outputs; ++port)
            made.outputs.push_back({job.outputs[port], job.types[port], job.elements[port], job.softmax ? job.softmax[port] : 0});
        made.counters = job.counters;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            queue_.push_back(std::move(made));
        }
        wake();
        return CNNA_OK;
    }

    int wait(int64_t seen, double seconds, int64_t *ended) {
        std::unique_lock<std::mutex> lock(mutex_);
        const bool came = ended_now_.wait_for(lock, Seconds(seconds), [&] { return ended_ > seen || failed_ != CNNA_OK; });
        *ended = ended_;
        if (ended_ > seen) return CNNA_OK;
        return came ? failed_ : static_cast<int>(CNNA_EXPIRED);
    }

    int retry() {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            if (failed_ == CNNA_OK) return CNNA_ARGUMENT;
            failed_ = CNNA_OK;
        }
        retried_.notify_all();
        return CNNA_OK;
    }

  private:
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

    struct Job {
        size_t program = 0, slot = 0;
        std::vector<Input> inputs;
        std::vector<Output> outputs;
        uint32_t *counters = nullptr;
        int code = CNNA_OK;  // of packing
        Clock::time_point began{};
    };

    // Copies of a program's arrays, which the caller may free.
    struct Owned {
        explicit Owned(const cnna_program &program)
            : in(program.in, program.in + program.inputs), out(program.out, program.out + program.outputs),
              words(program.words, program.words + program.slots * program.writes),
              memories(program.memories, program.memories + program.slots * (program.inputs + program.outputs)) {}
        std::vector<cnna_port> in, out;
        std::vector<cnna_write> words;
        std::vector<uint8_t *> memories;
        size_t next_slot = 0;
        Seconds usual{};  // what the last run took
    };

    // --- the thread ---

    void work() {
        prctl(PR_SET_TIMERSLACK, SLACK_NS);
        std::unique_ptr<Job> running, staged;
        while (!closing()) {
            if (!staged && (staged = taken())) staged->code = pack(*staged);
            if (running) {
                int code = state();
                if (code == CNNA_EXPIRED) {
                    pause(running.get());
                    continue;
                }
                if (code == CNNA_OK) code = note_end(*running);
                if (code != CNNA_OK) {
                    if (!rest(code)) return;
                    start(*running);
                    continue;
                }
                std::unique_ptr<Job> before = std::move(running);
                if (staged && staged->code == CNNA_OK) start(*(running = std::move(staged)));
                finish(*before);
            } else if (staged && staged->code != CNNA_OK) {
                if (!rest(staged->code)) return;
                staged->code = pack(*staged);
            } else if (staged) {
                start(*(running = std::move(staged)));
            } else {
                pause(nullptr);
            }
        }
    }

    bool closing() {
        std::lock_guard<std::mutex> lock(mutex_);
        return closing_;
    }

    std::unique_ptr<Job> taken() {
        std::lock_guard<std::mutex> lock(mutex_);
        if (queue_.empty()) return nullptr;
        auto found = std::make_unique<Job>(std::move(queue_.front()));
        queue_.pop_front();
        return found;
    }

    // Reports a failure and waits for `retry`. Returns false if the loop is closed instead.
    bool rest(int code) {
        std::unique_lock<std::mutex> lock(mutex_);
        failed_ = code;
        ended_now_.notify_all();
        retried_.wait(lock, [this] { return failed_ == CNNA_OK || closing_; });
        return !closing_;
    }

    int pack(Job &job) {
        const cnna_program &program = programs_[job.program];
        Owned &own = owned_[job.program];
        job.slot = own.next_slot;
        for (size_t input = 0; input < own.in.size(); ++input) {
            const cnna_port &port = own.in[input];
            uint8_t *memory = memory_of(job, input);
            const auto bytes = static_cast<size_t>(program.images * port.image_bytes);
            const int code = cnna_pack(&port, &job.inputs[input].tensor, job.inputs[input].table, program.images, memory, bytes);
            if (code != CNNA_OK) return code;
            if (device_.cache.clean) device_.cache.clean(device_.cache.context, memory, bytes);
        }
        own.next_slot = (own.next_slot + 1) % static_cast<size_t>(program.slots);
        return CNNA_OK;
    }

    void start(Job &job) {
        const cnna_program &program = programs_[job.program];
        const auto writes = static_cast<size_t>(program.writes);
        for (size_t number = 0; number < writes; ++number) {
            const cnna_write &one = owned_[job.program].words[job.slot * writes + number];
            write(one.offset, one.word);
        }
        barrier();
        job.began = looked_ = changed_ = Clock::now();
        progress_now_.clear();
        write(device_.ctrl, device_.start);
    }

    // CNNA_OK: the run has ended. CNNA_EXPIRED: not yet.
    int state() {
        const uint32_t status = read(device_.status);
        if (status & device_.error) return CNNA_STOPPED;
        if (status & device_.done) return CNNA_OK;
        const Clock::time_point now = Clock::now();
        if (now - looked_ < LOOK_AT_PROGRESS) return CNNA_EXPIRED;
        looked_ = now;
        std::vector<uint32_t> found;
        for (const uint32_t offset : progress_) found.push_back(read(offset));
        int code = CNNA_EXPIRED;
        if (found != progress_now_) {
            progress_now_ = found;
            changed_ = now;
        } else if (Seconds(now - changed_).count() > device_.timeout_seconds) {
            code = CNNA_STANDSTILL;
        }
        if (device_.limit_clocks && !found.empty() && found[0] > device_.limit_clocks) code = CNNA_LATE;
        return code != CNNA_EXPIRED && has_ended() ? static_cast<int>(CNNA_EXPIRED) : code;
    }

    // The counters are read before the next start clears them. Then done is cleared, and read again: the next run has not ended yet.
    int note_end(const Job &job) {
        owned_[job.program].usual = Clock::now() - job.began;
        for (size_t counter = 0; counter < counters_.size(); ++counter) job.counters[counter] = read(counters_[counter]);
        write(device_.status, device_.done);
        const Clock::time_point cleared = Clock::now();
        while (read(device_.status) & device_.done)
            if (Seconds(Clock::now() - cleared).count() > device_.timeout_seconds) return CNNA_STANDSTILL;
        return CNNA_OK;
    }

    // Nobody but the accelerator writes to an output, and whoever allocates one has it invalidated once. So no line of it is dirty, and
    // none can be written back over an answer. Lines that the processor has fetched too early are thrown away here.
    void finish(const Job &job) {
        const cnna_program &program = programs_[job.program];
        const Owned &own = owned_[job.program];
        for (size_t output = 0; output < own.out.size(); ++output) {
            const cnna_port &port = own.out[output];
            const uint8_t *memory = memory_of(job, own.in.size() + output);
            const auto bytes = static_cast<size_t>(program.images * port.image_bytes);
            if (device_.cache.invalidate) device_.cache.invalidate(device_.cache.context, memory, bytes);
            const Output &to = job.outputs[output];
            cnna_unpack(&port, memory, bytes, program.images, to.type, to.place, to.elements);
            if (to.softmax) {
                const auto count = static_cast<size_t>(to.softmax);
                auto *scores = static_cast<float *>(to.place);
                cnna_softmax(scores, to.elements / count, count, scores);
            }
        }
        std::lock_guard<std::mutex> lock(mutex_);
        ++ended_;
        ended_now_.notify_all();
    }

    // Sleeps until a job comes, the run may have ended, or the loop is closed.
    //
    // The interrupt is a level. Whoever sees the run's end clears STATUS.done, which ends the level; only then is the interrupt armed
    // again, here. A run that ends before that is seen in STATUS, which is read after it.
    void pause(const Job *running) {
        pollfd files[] = {{wake_, POLLIN, 0}, {device_.uio, POLLIN, 0}};
        timespec *until = nullptr;
        timespec most{};
        bool armed = false;
        if (running) {
            const Seconds waited = Clock::now() - running->began;
            armed = arm();
            if (armed && has_ended()) return;
            const Seconds usual = owned_[running->program].usual;
            const Seconds until_early = usual * EARLY - waited, part = waited * (usual.count() ? LATE_PART : PAUSE_PART);
            const Seconds least = std::clamp(std::max(until_early, part), LEAST_PAUSE, MOST_PAUSE);
            most.tv_nsec = static_cast<long>((armed ? LOOK_AT_PROGRESS : least).count() * 1e9);
            until = &most;
        }
        const int came = ppoll(files, armed ? 2 : 1, until, nullptr);
        if (armed && came == 0 && has_ended()) ++missed_;
        if (came <= 0) return;
        uint64_t taken;
        if (files[0].revents) (void)!::read(wake_, &taken, sizeof taken);
        if (armed && files[1].revents) {
            missed_ = 0;
            if (::read(device_.uio, &taken, sizeof(uint32_t)) != sizeof(uint32_t)) missed_ = MOST_MISSED;  // it would never sleep again
        }
    }

    // Whether an interrupt will end the sleep. It is not waited for where there is none, or where it has failed to come.
    bool arm() const {
        const uint32_t on = 1;
        return device_.uio >= 0 && missed_ < MOST_MISSED && ::write(device_.uio, &on, sizeof on) == sizeof on;
    }

    bool has_ended() const { return read(device_.status) & (device_.done | device_.error); }

    void wake() {
        const uint64_t one = 1;
        (void)!::write(wake_, &one, sizeof one);
    }

    uint8_t *memory_of(const Job &job, size_t port) const {
        const Owned &own = owned_[job.program];
        return own.memories[job.slot * (own.in.size() + own.out.size()) + port];
    }
    uint32_t read(uint32_t offset) const { return __atomic_load_n(&device_.registers[offset / sizeof(uint32_t)], LOADS); }
    void write(uint32_t offset, uint32_t word) const { __atomic_store_n(&device_.registers[offset / sizeof(uint32_t)], word, STORES); }

    const cnna_device device_;
    const std::vector<cnna_program> programs_;  // of their arrays, `owned_` has copies
    std::vector<Owned> owned_;
    std::vector<uint32_t> counters_, progress_, progress_now_;
    Clock::time_point looked_{}, changed_{};
    int missed_ = 0;  // interrupts, one after another

    int wake_ = -1;
    std::mutex mutex_;  // of all below
    std::condition_variable ended_now_, retried_;
    std::deque<Job> queue_;
    int64_t ended_ = 0;
    int failed_ = CNNA_OK;
    bool closing_ = false;
    std::thread thread_;  // the last, since it uses the others
};

int cnna_loop_open(const cnna_device *device, cnna_loop **made) {
    if (!device->registers || device->programs < 1) return CNNA_ARGUMENT;
    return cnna::guarded([=] {
        try {
            *made = new cnna_loop(*device);
        } catch (const std::system_error &) {  // no more threads
            return static_cast<int>(CNNA_MEMORY);
        }
        return static_cast<int>(CNNA_OK);
    });
}

int cnna_loop_submit(cnna_loop *loop, const cnna_job *job) {
    return cnna::guarded([=] { return loop->submit(*job); });
}

int cnna_loop_wait(cnna_loop *loop, int64_t seen, double seconds, int64_t *ended) { return loop->wait(seen, seconds, ended); }

int cnna_loop_retry(cnna_loop *loop) { return loop->retry(); }

void cnna_loop_close(cnna_loop *loop) { delete loop; }
