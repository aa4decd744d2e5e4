// The accelerator of a run loop: see loop_accelerator.h. docs/registers.md says what the registers do.
#include "loop_accelerator.h"

#include <algorithm>
#include <thread>

#include "barrier.h"

namespace cnna {

namespace {

// Accesses to registers are single and in order, as device memory is. Where a thread plays the accelerator, the thread sanitizer must
// see that they hand memory over.
#if defined(__SANITIZE_THREAD__)
constexpr int LOADS = __ATOMIC_ACQUIRE, STORES = __ATOMIC_RELEASE;
#else
constexpr int LOADS = __ATOMIC_RELAXED, STORES = __ATOMIC_RELAXED;
#endif

}  // namespace

LoopAccelerator::LoopAccelerator(const cnna_device &device)
    : device_(device), counters_(device.counter_offsets, device.counter_offsets + device.counters),
      progress_(device.progress_offsets, device.progress_offsets + device.progress) {
    progress_now_.reserve(progress_.size()), progress_found_.reserve(progress_.size());  // the thread asks for no memory
}

uint32_t LoopAccelerator::read(uint32_t offset) const { return __atomic_load_n(&device_.registers[offset / sizeof(uint32_t)], LOADS); }

void LoopAccelerator::write(uint32_t offset, uint32_t word) const {
    __atomic_store_n(&device_.registers[offset / sizeof(uint32_t)], word, STORES);
}

bool LoopAccelerator::holds(const cnna_turn &turn) const {
    return std::all_of(turn.held, turn.held + turn.registers, [this](const cnna_write &one) { return read(one.offset) == one.word; });
}

void LoopAccelerator::set(const Job &job, const Program &program) {
    for (size_t number = 0; number < program.writes; ++number) {
        const cnna_write &one = program.words[job.slot * program.writes + number];
        write(one.offset, one.word);
    }
    barrier();
}

// Writes CTRL. With a queue, registers may be written again as soon as the start is taken: a pulse reads 0 then.
void LoopAccelerator::control(uint32_t pulse) {
    write(device_.ctrl, device_.keep | pulse), live_ = false;
    if (!device_.queue || !(read(device_.ctrl) & pulse)) return;
    const Clock::time_point began = Clock::now();
    while (read(device_.ctrl) & pulse) {
        if (Seconds(Clock::now() - began).count() > device_.timeout_seconds) return;  // `state` finds that nothing goes on
        std::this_thread::yield();  // a thread may play the accelerator, and need the processor
    }
}

void LoopAccelerator::start(Job &job, const Program &program) {
    set(job, program);
    if (device_.queue) finished_ = read(device_.finished);
    job.started = true, job.done = job.queued = false;
    watch(job);
    control(device_.start);
}

void LoopAccelerator::queue(Job &job, const Program &program) {
    set(job, program);
    job.started = job.queued = true, job.done = false;
    control(device_.queue);
}

void LoopAccelerator::watch(Job &job) {
    queued_ = job.queued;
    job.timed = !queued_ || !has_ended();
    job.began = looked_ = changed_ = Clock::now();
    progress_now_.clear();
}

// How many runs have ended and are not noted. Where FINISHED went back, another image has been loaded: no run will end.
uint32_t LoopAccelerator::unnoted() const {
    const uint32_t found = read(device_.finished) - finished_;
    return found <= most() ? found : 0;
}

// The run may end, and the next one be stopped, between two reads.
int LoopAccelerator::ended() const {
    if (device_.queue && unnoted()) return CNNA_OK;
    const uint32_t status = read(device_.status);
    if (!device_.queue) return status & device_.error ? CNNA_STOPPED : status & device_.done ? CNNA_OK : CNNA_EXPIRED;
    if (!(status & device_.error)) return CNNA_EXPIRED;
    return unnoted() ? CNNA_OK : CNNA_STOPPED;
}

// Reads the registers of progress. Those of a run from the queue are shown while CTRL.live is set: until its end, so that whoever says
// where it stands sees them too.
void LoopAccelerator::look() {
    if (queued_) live_ = true, write(device_.ctrl, device_.keep | device_.live);
    progress_found_.clear();
    for (const uint32_t offset : progress_) progress_found_.push_back(read(offset));
}

int LoopAccelerator::state() {
    if (const int found = ended(); found != CNNA_EXPIRED) return found;
    const Clock::time_point now = Clock::now();
    if (now - looked_ < LOOK_AT_PROGRESS) return CNNA_EXPIRED;
    looked_ = now;
    look();
    int code = CNNA_EXPIRED;
    if (progress_found_ != progress_now_) {
        progress_now_.swap(progress_found_);
        changed_ = now;
    } else if (Seconds(now - changed_).count() > device_.timeout_seconds) {
        code = CNNA_STANDSTILL;
    }
    if (device_.limit_clocks && !progress_now_.empty() && progress_now_[0] > device_.limit_clocks) code = CNNA_LATE;
    return code != CNNA_EXPIRED && has_ended() ? static_cast<int>(CNNA_EXPIRED) : code;
}

// The counters are read before the next start clears them, or the next run from the queue ends: then they are all 0, since they are that
// run's. Then done is cleared, and read again: the next run has not been started yet.
int LoopAccelerator::note_end(const Job &job, Program &program, bool only, Seconds limit) {
    if (job.timed) program.usual = Clock::now() - job.began;
    if (live_) write(device_.ctrl, device_.keep), live_ = false;
    for (size_t counter = 0; counter < counters_.size(); ++counter) job.counters[counter] = read(counters_[counter]);
    if (device_.queue && (read(device_.status) & device_.error || unnoted() > 1)) std::fill_n(job.counters, counters_.size(), 0);
    write(device_.status, device_.done);
    if (only && read(device_.status) & device_.done) {
        const Clock::time_point cleared = Clock::now();
        while (read(device_.status) & device_.done) {
            if (Seconds(Clock::now() - cleared) > limit) return CNNA_STANDSTILL;
            std::this_thread::yield();  // a thread may play the accelerator, and need the processor
        }
    }
    ++finished_;
    return CNNA_OK;
}

}  // namespace cnna
