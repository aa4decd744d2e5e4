// Threads that share work: see team.h.
#include "team.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <new>
#include <system_error>

namespace cnna {

namespace {

constexpr int COUNT_BITS = 32;
static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "a futex is a plain word");

// Sleeps until the word is woken; not at all if it is another value by now. It may wake for nothing.
void sleep_on(const std::atomic<uint32_t> &word, uint32_t value) { syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0); }

void wake_all(const std::atomic<uint32_t> &word) { syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0); }

}  // namespace

Team::Team(size_t helpers) {
    helpers_.reserve(helpers);
    try {
        while (helpers_.size() < helpers) helpers_.emplace_back([this] { help(); });
    } catch (const std::system_error &) {  // no more threads: those that are there do the work
    } catch (const std::bad_alloc &) {  // nor memory for them
    }
}

Team::~Team() {
    over_ = true;
    ++calls_;
    wake_all(calls_);
    for (std::thread &helper : helpers_) helper.join();
}

void Team::begin(Call call, const void *context, uint32_t count) {
    call_ = call, context_ = context;
    left_.store(count, std::memory_order_relaxed);
    next_.store(uint64_t{count} << COUNT_BITS, std::memory_order_release);
    calls_.fetch_add(1, std::memory_order_release);
    wake_all(calls_);
    take_parts();
    while (const uint32_t left = left_.load(std::memory_order_acquire)) sleep_on(left_, left);
}

void Team::help() {
    while (!over_) {
        const uint32_t seen = calls_.load(std::memory_order_acquire);
        take_parts();
        if (!over_) sleep_on(calls_, seen);
    }
}

// A thread that comes late finds no part, or one of the next piece of work: whose call it sees, since that was written before `next_`.
void Team::take_parts() {
    for (;;) {
        const uint64_t found = next_.fetch_add(1, std::memory_order_acq_rel);
        const auto part = static_cast<uint32_t>(found), count = static_cast<uint32_t>(found >> COUNT_BITS);
        if (part >= count) return;
        call_(context_, part);
        if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) wake_all(left_);
    }
}

}  // namespace cnna
