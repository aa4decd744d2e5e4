// Packs the inputs of a run by several threads: each takes a band of a picture, and cleans the lines that it has written.
#ifndef CNNA_LOOP_PACKING_H
#define CNNA_LOOP_PACKING_H

#include <functional>

#include "cnna_host.h"
#include "loop_jobs.h"
#include "team.h"

namespace cnna {

class LoopPacking {
  public:
    // band_bytes: of a band at least; waking a thread takes longer than packing a few.
    LoopPacking(size_t threads, size_t band_bytes, const cnna_cache &cache) : team_(threads - 1), band_bytes_(band_bytes), cache_(cache) {}

    size_t threads() const { return team_.threads(); }

    // Packs a job into the next slot of its program, while one of the threads does `besides`, if it is anything. The job's `code` says
    // how it went; a job that failed has taken no slot.
    void pack(Job &job, Program &program, const std::function<void()> &besides);

  private:
    Team team_;
    const size_t band_bytes_;
    const cnna_cache cache_;
};

}  // namespace cnna

#endif
