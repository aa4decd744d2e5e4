// Threads that share work, again and again (test_loop_rig.py builds and calls it).
//
//     team_rig RUNS SEED
//
// Each part notes which piece of work it belongs to, some after a while. A part that is lost, done twice, or still under way when
// `share` returns, is found. Ends with 0 and a line if all were done.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "team.h"
#include "watch.h"

namespace {

constexpr size_t MOST_PARTS = 9;

bool sound(size_t helpers, int64_t runs, uint64_t seed) {
    std::mt19937_64 random(seed);
    cnna::Team team(helpers);
    std::vector<int64_t> done(MOST_PARTS), times(MOST_PARTS);
    for (int64_t run = 1; run <= runs; ++run) {
        begins(run);
        const size_t count = random() % (MOST_PARTS + 1), late = random() % MOST_PARTS;
        const bool slow = random() % 8 == 0;
        if (random() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(60));  // the helpers fall asleep
        team.share(count, [&](size_t part) {
            if (slow && part == late) std::this_thread::sleep_for(std::chrono::microseconds(80));
            done[part] = run, ++times[part];
        });
        for (size_t part = 0; part < MOST_PARTS; ++part) {
            if ((done[part] == run) == (part < count)) continue;
            std::fprintf(stderr, "run %lld: part %zu of %zu is lost or late\n", static_cast<long long>(run), part, count);
            return false;
        }
    }
    int64_t all = 0, expected = 0;
    for (int64_t number : times) all += number;
    random.seed(seed);
    for (int64_t run = 1; run <= runs; ++run) {
        expected += static_cast<int64_t>(random() % (MOST_PARTS + 1));
        for (int skipped = 0; skipped < 3; ++skipped) random();
    }
    if (all != expected) std::fprintf(stderr, "run 0: %lld parts were done, not %lld\n", static_cast<long long>(all), static_cast<long long>(expected));
    return all == expected;
}

}  // namespace

int main(int count, char **arguments) {
    if (count < 3) return 2;
    const int64_t runs = std::atoll(arguments[1]);
    const uint64_t seed = std::strtoull(arguments[2], nullptr, 10);
    for (size_t helpers : {0, 1, 3})
        if (!sound(helpers, runs, seed)) return 1;
    std::printf("%lld pieces of work done\n", static_cast<long long>(runs));
    return 0;
}
