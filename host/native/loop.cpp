// The run loop: one thread that packs run n + 1 while run n is on the accelerator, starts it at once when n ends, and unpacks n. Where the
// accelerator has a queue, it starts the next runs before n ends, as many as there are places and slots.
// Helpers pack with it, in bands. While it has no job, a caller may do the work of a single run itself, so that no thread is woken for
// it but the helpers.
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
#include <functional>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "checks.h"
#include "cnna_host.h"
#include "loop_accelerator.h"
#include "loop_detect.h"
#include "loop_jobs.h"
#include "loop_packing.h"
#include "loop_turn.h"

namespace {

using cnna::Clock;
using cnna::elements;
using cnna::Job;
using cnna::LOOK_AT_PROGRESS;
using cnna::Program;
using cnna::Seconds;

constexpr Seconds LEAST_PAUSE{20e-6}, MOST_PAUSE{10e-3};  // between two looks at STATUS, where there is no interrupt
constexpr double PAUSE_PART = 1.0 / 16;                    // of the time that a run has taken so far, where none has ended yet
constexpr double LATE_PART = 1.0 / 64;                     // of that time, once it is known how long a run takes
constexpr double EARLY = 31.0 / 32;                        // of the time that the last run took: then it looks for the first time
constexpr Seconds AHEAD{50e-6};                            // before that it wakes where it has cores to spare, and looks without a pause
constexpr Seconds CALLERS_AHEAD{100e-6};                   // the same for a caller's thread, whose pauses Linux prolongs
constexpr int64_t MOST_THREADS = 64;
constexpr unsigned long SLACK_NS = 1;                      // by which Linux may prolong a pause; by default these are 50 us
constexpr int MOST_MISSED = 2;  // interrupts that did not come: then STATUS is polled

}  // namespace

struct cnna_loop {
  public:
    explicit cnna_loop(const cnna_device &device)
        : device_(device), programs_(device.program, device.program + device.programs),
          accelerator_(device), packing_(static_cast<size_t>(device.threads), static_cast<size_t>(device.band_bytes), device.cache) {
        running_.reserve(accelerator_.most());
        wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (wake_ < 0) throw std::bad_alloc();
        try {
            thread_ = std::thread([this] { work(); });
        } catch (...) {
            close(wake_);
            throw;
        }
    }

    ~cnna_loop() {
        stop();
        close(wake_);
    }

    cnna_loop(const cnna_loop &) = delete;
    cnna_loop &operator=(const cnna_loop &) = delete;

    // Ends the thread. What waits for it goes on waiting, and jobs stay where they are. A caller that runs a job leaves it first.
    void stop() {
        {
            std::unique_lock<std::mutex> lock(mutex_);
            closing_ = true;
            left_.wait(lock, [this] { return !called_; });
        }
        retried_.notify_all();
        wake();
        if (thread_.joinable()) thread_.join();
    }

    int submit(const cnna_job &job) {
        auto made = std::make_unique<Job>();
        if (const int code = take(job, made.get()); code != CNNA_OK) return code;
        append(std::move(made));
        return CNNA_OK;
    }

    int run(const cnna_job &job, double seconds) {
        auto made = std::make_unique<Job>();
        if (const int code = take(job, made.get()); code != CNNA_OK) return code;
        if (!called()) {
            append(std::move(made));
            return CNNA_EXPIRED;
        }
        if (driven(*made, Seconds(seconds))) {
            leave(nullptr);
            return CNNA_OK;
        }
        leave(std::move(made));
        return CNNA_EXPIRED;
    }

    int run_in_turn(const cnna_job &job, cnna_turn &turn, double seconds) {
        turn.kept = 0;
        if (getpid() != process_) return CNNA_BUSY;
        auto made = std::make_unique<Job>();
        if (const int code = take(job, made.get()); code != CNNA_OK) return code;
        cnna::LoopTurn held(turn);
        if (!held.taken() || !accelerator_.holds(turn) || !called()) return CNNA_BUSY;
        if (driven(*made, Seconds(seconds))) {
            leave(nullptr);
            return CNNA_OK;
        }
        held.keep();
        leave(std::move(made));
        return CNNA_EXPIRED;
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
    // --- callers ---

    // A copy of a job, if its numbers are sound.
    int take(const cnna_job &job, Job *made) const {
        if (job.program < 0 || job.program >= device_.programs) return CNNA_ARGUMENT;
        const Program &program = programs_[static_cast<size_t>(job.program)];
        if (const int code = job.detector ? cnna::takes(program, job) : sound(program, job); code != CNNA_OK) return code;
        made->program = static_cast<size_t>(job.program);
        const size_t outputs = job.detector ? size_t{CNNA_DETECTED} : program.out.size();
        made->inputs.reserve(program.in.size()), made->outputs.reserve(outputs);
        for (size_t port = 0; port < program.in.size(); ++port) made->inputs.push_back({job.inputs[port], job.tables[port]});
        for (size_t output = 0; output < outputs; ++output) {
            const int64_t type = job.detector ? 0 : job.types[output], row = job.detector || !job.softmax ? 0 : job.softmax[output];
            made->outputs.push_back({job.outputs[output], type, job.elements[output], row});
        }
        if (job.detector) {
            const cnna_detector &one = *job.detector;
            made->detector = Job::Detector{*one.heads, *one.wanted, {one.ports, one.ports + one.heads->heads}};
        }
        made->counters = job.counters;
        return CNNA_OK;
    }

    // Whether a job's outputs have room for those of its program.
    static int sound(const Program &program, const cnna_job &job) {
        for (size_t output = 0; output < program.out.size(); ++output) {
            if (job.types[output] != CNNA_INT8 && job.types[output] != CNNA_FLOAT32) return CNNA_ARGUMENT;
            const size_t each = elements(program.out[output]);
            if (!job.outputs[output] || job.elements[output] / each < static_cast<size_t>(program.images)) return CNNA_BOUNDS;
            const int64_t row = job.softmax ? job.softmax[output] : 0;
            if (row < 0 || (row && (job.types[output] != CNNA_FLOAT32 || each % static_cast<size_t>(row)))) return CNNA_ARGUMENT;
        }
        return CNNA_OK;
    }

    void append(std::unique_ptr<Job> made) {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            queue_.push_back(std::move(made));
            ++open_;
        }
        wake();
    }

    // Whether the caller may run a job itself: no other is open, and other threads help, so that it may look without a pause.
    bool called() {
        std::lock_guard<std::mutex> lock(mutex_);
        if (open_ || closing_ || called_ || packing_.threads() == 1) return false;
        called_ = true;
        ++open_;
        return true;
    }

    // Runs a job on the caller's thread. Returns false if it has not ended in that time, or failed: then it is the thread's.
    bool driven(Job &job, Seconds seconds) {
        const Clock::time_point until = Clock::now() + std::chrono::duration_cast<Clock::duration>(seconds);
        pack(job, nullptr);
        if (job.code != CNNA_OK) return false;
        accelerator_.start(job, programs_[job.program]);
        int code = accelerator_.state();
        for (; code == CNNA_EXPIRED; code = accelerator_.state()) {
            const Seconds left = until - Clock::now();
            if (left.count() <= 0 || closing()) return false;
            pause(&job, left, CALLERS_AHEAD, false);
        }
        if (code != CNNA_OK) return false;
        job.done = true;
        if (accelerator_.note_end(job, programs_[job.program], true, until - Clock::now()) != CNNA_OK) return false;
        job.noted = true;
        finish(job);
        return job.code == CNNA_OK;
    }

    // The caller has ended. unfinished: a job that the thread goes on with.
    void leave(std::unique_ptr<Job> unfinished) {
        std::lock_guard<std::mutex> lock(mutex_);  // to the end: whoever closes the loop waits for it, and then frees it
        called_ = false;
        unfinished_ = std::move(unfinished);
        if (!unfinished_ && queue_.empty() && !closing_) return;
        left_.notify_all();
        wake();
    }

    // --- the thread ---

    void work() {
        prctl(PR_SET_TIMERSLACK, SLACK_NS);
        std::unique_ptr<Job> staged, ended;
        while (!closing()) {
            if (!staged) staged = taken();
            if (staged && staged->noted)
                ended = std::move(staged);
            else if (staged && staged->started)
                running_.push_back(std::move(staged));
            if (staged && !staged->packed)
                pack(*staged, ended.get());
            else if (ended)
                finish(*ended);
            if (ended && ended->code != CNNA_OK) {  // its answer is still in the accelerator's memory
                if (!rested(ended->code)) return;
                continue;
            }
            ended.reset();
            if (staged && staged->code != CNNA_OK && running_.empty()) {
                if (!rested(staged->code)) return;
                staged->packed = false;
                continue;
            }
            if (begin(staged)) continue;
            if (running_.empty()) {
                pause(nullptr, LOOK_AT_PROGRESS, AHEAD, true);
                continue;
            }
            Job &oldest = *running_.front();
            int code = oldest.done ? static_cast<int>(CNNA_OK) : accelerator_.state();
            if (code == CNNA_EXPIRED) {
                pause(&oldest, LOOK_AT_PROGRESS, AHEAD, true);
                continue;
            }
            const bool only = running_.size() == 1;
            if (code == CNNA_OK) code = accelerator_.note_end(oldest, programs_[oldest.program], only, Seconds(device_.timeout_seconds));
            if (code != CNNA_OK) {
                if (!rested(code)) return;
                continue;
            }
            ended = std::move(running_.front());
            running_.erase(running_.begin());
            if (!only) accelerator_.watch(*running_.front());
            begin(staged);
        }
    }

    // Starts a job that is packed, or queues it. Returns false if it has to wait.
    bool begin(std::unique_ptr<Job> &staged) {
        if (!staged || staged->code != CNNA_OK || running_.size() >= accelerator_.most()) return false;
        on(*staged);
        running_.push_back(std::move(staged));
        return true;
    }

    // Puts a job onto the accelerator, behind those that are there.
    void on(Job &job) {
        if (running_.empty() || &job == running_.front().get())
            accelerator_.start(job, programs_[job.program]);
        else
            accelerator_.queue(job, programs_[job.program]);
    }

    // Reports a failure and waits for `retry`. What was on the accelerator is started again, since a reset has stopped and dropped it.
    // Returns false if the loop is closed instead.
    bool rested(int code) {
        if (!rest(code)) return false;
        for (const std::unique_ptr<Job> &job : running_) on(*job);
        return true;
    }

    bool closing() {
        std::lock_guard<std::mutex> lock(mutex_);
        return closing_;
    }

    std::unique_ptr<Job> taken() {
        std::lock_guard<std::mutex> lock(mutex_);
        if (unfinished_) return std::move(unfinished_);
        if (called_ || queue_.empty() || !room(queue_.front()->program)) return nullptr;
        std::unique_ptr<Job> found = std::move(queue_.front());
        queue_.pop_front();
        return found;
    }

    // Whether a job of a program may be packed: the inputs of those on the accelerator are still read.
    bool room(size_t program) const {
        const auto same = [program](const std::unique_ptr<Job> &one) { return one->program == program; };
        return static_cast<size_t>(std::count_if(running_.begin(), running_.end(), same)) < programs_[program].slots;
    }

    bool rest(int code) {
        std::unique_lock<std::mutex> lock(mutex_);
        failed_ = code;
        ended_now_.notify_all();
        retried_.wait(lock, [this] { return failed_ == CNNA_OK || closing_; });
        return !closing_;
    }

    // Packs a job, and unpacks the one that has ended meanwhile, if there is one.
    void pack(Job &job, Job *ended) {
        std::function<void()> unpack;
        if (ended) unpack = [this, ended] { finish(*ended); };
        packing_.pack(job, programs_[job.program], unpack);
    }

    // Nobody but the accelerator writes to an output, and whoever allocates one has it invalidated once. So no line of it is dirty, and
    // none can be written back over an answer. Lines that the processor has fetched too early are thrown away here.
    //
    // The job's `code` says how it went. A job that was not unpacked has not ended.
    void finish(Job &job) {
        const Program &program = programs_[job.program];
        job.code = job.detector ? cnna::detect(program, job, device_.cache) : unpack(program, job);
        if (job.code != CNNA_OK) return;
        std::lock_guard<std::mutex> lock(mutex_);
        ++ended_, --open_;
        ended_now_.notify_all();
    }

    int unpack(const Program &program, const Job &job) const {
        for (size_t output = 0; output < program.out.size(); ++output) {
            const cnna_port &port = program.out[output];
            const uint8_t *memory = program.memory(job.slot, program.in.size() + output);
            const size_t bytes = program.bytes(port);
            if (device_.cache.invalidate) device_.cache.invalidate(device_.cache.context, memory, bytes);
            const Job::Output &to = job.outputs[output];
            if (const int code = cnna_unpack(&port, memory, bytes, program.images, to.type, to.place, to.elements); code != CNNA_OK) return code;
            if (to.softmax) {
                const auto count = static_cast<size_t>(to.softmax);
                auto *scores = static_cast<float *>(to.place);
                cnna_softmax(scores, static_cast<size_t>(program.images) * (elements(port) / count), count, scores);
            }
        }
        return CNNA_OK;
    }

    // Sleeps until a job comes, the run may have ended, or the loop is closed; not at all while a run is about to end.
    // longest: of a sleep beside a run. before: how long before the end it looks without a pause. woken: whether a new job ends it.
    //
    // The interrupt is a level. Whoever sees the run's end clears STATUS.done, which ends the level; only then is the interrupt armed
    // again, here. A run that ends before that is seen in STATUS, which is read after it.
    void pause(const Job *running, Seconds longest, Seconds before, bool woken) {
        pollfd files[] = {{woken ? wake_ : -1, POLLIN, 0}, {device_.uio, POLLIN, 0}};
        timespec *until = nullptr;
        timespec most{};
        bool armed = false, whole = false;  // whole: it lasts until the interrupt, or as long as a look at progress may wait
        if (running) {
            const Seconds waited = Clock::now() - running->began, usual = programs_[running->program].usual;
            const Seconds ahead = packing_.threads() > 1 && usual.count() ? before : Seconds{};
            const Seconds early = usual * EARLY - ahead - waited;
            if (ahead.count() && early.count() <= 0 && waited < usual + ahead) return;
            armed = arm();
            if (armed && accelerator_.has_ended()) return;
            const Seconds part = waited * (usual.count() ? LATE_PART : PAUSE_PART);
            const bool awaited = armed && !(ahead.count() && early.count() > 0);
            const Seconds own = awaited ? LOOK_AT_PROGRESS : Seconds(std::clamp(std::max(early, part), LEAST_PAUSE, MOST_PAUSE));
            const Seconds sleep = std::min(longest, own);
            whole = awaited && sleep >= LOOK_AT_PROGRESS;
            most.tv_nsec = static_cast<long>(sleep.count() * 1e9);
            until = &most;
        }
        const int came = ppoll(files, armed ? 2 : 1, until, nullptr);
        if (whole && came == 0 && accelerator_.has_ended()) ++missed_;
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

    void wake() {
        const uint64_t one = 1;
        (void)!::write(wake_, &one, sizeof one);
    }

    const cnna_device device_;
    const pid_t process_ = getpid();
    std::vector<Program> programs_;
    cnna::LoopAccelerator accelerator_;
    std::vector<std::unique_ptr<Job>> running_;  // on the accelerator, the oldest first; the thread's own, which asks for no memory
    int missed_ = 0;  // interrupts, one after another

    int wake_ = -1;
    std::mutex mutex_;  // of all below
    std::condition_variable ended_now_, retried_, left_;
    std::deque<std::unique_ptr<Job>> queue_;
    std::unique_ptr<Job> unfinished_;  // of a caller
    int64_t ended_ = 0, open_ = 0;     // jobs that have ended, and that have not
    bool called_ = false;              // a caller runs the only open job
    int failed_ = CNNA_OK;
    bool closing_ = false;
    cnna::LoopPacking packing_;
    std::thread thread_;  // the last, since it uses the others
};

int cnna_loop_open(const cnna_device *device, cnna_loop **made) {
    if (!cnna::sound(*device) || !cnna::within(device->threads, 1, MOST_THREADS) || !cnna::within(device->band_bytes, 1)) return CNNA_ARGUMENT;
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

int cnna_loop_run(cnna_loop *loop, const cnna_job *job, double seconds) {
    return cnna::guarded([=] { return loop->run(*job, seconds); });
}

int cnna_loop_run_in_turn(cnna_loop *loop, const cnna_job *job, cnna_turn *turn, double seconds) {
    return loop ? cnna::guarded([=] { return loop->run_in_turn(*job, *turn, seconds); }) : static_cast<int>(CNNA_BUSY);
}

int cnna_loop_wait(cnna_loop *loop, int64_t seen, double seconds, int64_t *ended) { return loop->wait(seen, seconds, ended); }

int cnna_loop_retry(cnna_loop *loop) { return loop->retry(); }

void cnna_loop_stop(cnna_loop *loop) { loop->stop(); }

void cnna_loop_close(cnna_loop *loop) { delete loop; }
