// Threads that share the parts of a piece of work: the run loop packs a picture in bands with them.
//
// A part goes to whichever thread is free. A thread sleeps on a word that changes with every piece of work, and whoever handed it over
// sleeps until the last part has ended; both by Linux's futex, since a condition variable takes thousands of instructions a picture.
#ifndef CNNA_TEAM_H
#define CNNA_TEAM_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace cnna {

class Team {
  public:
    // helpers: threads besides the caller of `share`; fewer where the system has no more.
    explicit Team(size_t helpers);
    ~Team();
    Team(const Team &) = delete;
    Team &operator=(const Team &) = delete;

    size_t threads() const { return helpers_.size() + 1; }

    // Calls work(0) to work(count - 1), each once, on the caller's thread and the helpers'; returns when all have ended. One caller at a
    // time. `work` throws nothing. What the caller wrote before is seen by every part, and what the parts wrote by the caller afterwards.
    template <typename Work>
    void share(size_t count, const Work &work) {
        if (count < 2 || helpers_.empty()) {
            for (size_t part = 0; part < count; ++part) work(part);
            return;
        }
        begin([](const void *context, size_t part) { (*static_cast<const Work *>(context))(part); }, &work, static_cast<uint32_t>(count));
    }

  private:
    using Call = void (*)(const void *context, size_t part);

    void begin(Call call, const void *context, uint32_t count);
    void help();
    void take_parts();

    Call call_ = nullptr;  // with `context_`, read by whoever has got a part, so before `begin` returns
    const void *context_ = nullptr;
    std::atomic<uint64_t> next_{0};   // the number of parts, above the next one's
    std::atomic<uint32_t> left_{0};   // parts that have not ended
    std::atomic<uint32_t> calls_{0};  // changes with every piece of work
    std::atomic<bool> over_{false};
    std::vector<std::thread> helpers_;
};

}  // namespace cnna

#endif
