// The accelerator of a run loop: starts and queues runs, and sees which has ended, in its registers.
#ifndef CNNA_LOOP_ACCELERATOR_H
#define CNNA_LOOP_ACCELERATOR_H

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cnna_host.h"
#include "loop_jobs.h"

namespace cnna {

constexpr Seconds LOOK_AT_PROGRESS{0.2};

// Runs are on the accelerator in the order in which they were started; the oldest is the one that runs, or has ended and is not noted yet.
//
// With a queue, FINISHED says how many have ended: STATUS.done may be set beside a run, and a start does not clear it. An error stops
// the oldest run that has not ended, and drops those behind it.
class LoopAccelerator {
  public:
    explicit LoopAccelerator(const cnna_device &device);

    // Runs that may be on it at once.
    size_t most() const { return device_.queue ? 1 + static_cast<size_t>(device_.places) : 1; }

    // Whether registers hold what they must at the beginning of a turn.
    bool holds(const cnna_turn &turn) const;

    // Starts a run on an accelerator that is idle.
    void start(Job &job, const Program &program);

    // Queues a run behind those that are on it. If an error has stopped it, the run is dropped, as those are that wait.
    void queue(Job &job, const Program &program);

    // The oldest run is another one now: its time and its progress begin.
    void watch(Job &job);

    // Of the oldest run. CNNA_OK: it has ended. CNNA_EXPIRED: not yet.
    int state();

    // Reads its counters and clears done. only: no other run is on the accelerator, so done must stay clear. limit: how long it may take.
    int note_end(const Job &job, Program &program, bool only, Seconds limit);

    bool has_ended() const { return ended() != CNNA_EXPIRED; }

  private:
    void set(const Job &job, const Program &program);
    void control(uint32_t pulse);
    int ended() const;
    void look();
    uint32_t unnoted() const;
    uint32_t read(uint32_t offset) const;
    void write(uint32_t offset, uint32_t word) const;

    const cnna_device device_;
    std::vector<uint32_t> counters_, progress_, progress_now_, progress_found_;
    Clock::time_point looked_{}, changed_{};
    uint32_t finished_ = 0;  // FINISHED, when the ends of all runs so far were noted
    bool queued_ = false;    // whether the oldest run was
    bool live_ = false;      // whether CTRL.live is set
};

}  // namespace cnna

#endif
