// All that was written before is in memory before anything after it.
#ifndef CNNA_BARRIER_H
#define CNNA_BARRIER_H

#include <atomic>

namespace cnna {

inline void barrier() {
#if defined(__aarch64__)
    asm volatile("dsb sy" ::: "memory");
#elif !defined(__SANITIZE_THREAD__)
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace cnna

#endif
