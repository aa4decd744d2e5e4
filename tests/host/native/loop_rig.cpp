// The run loop against a thread that plays the accelerator, with memory that is not coherent (test_loop_rig.py builds and calls it).
//
//     loop_rig RUNS SEED [forget-clean | forget-invalidate | starve | none] [apart]
//
// Host and accelerator have a copy of memory each. Only `clean` carries a line from the host's copy to the other, and only
// `invalidate` one back; besides, lines are evicted and fetched at random, as a cache may do at any time. So a line that is forgotten
// changes an answer; `forget-clean` and `forget-invalidate` forget one of each call. Ports begin
// in the middle of a line, so that threads that pack a picture write to lines of each other; then, and with `apart` only, they begin
// with a line, and each row of the picture has lines of its own. The accelerator answers byte i of its output with a sum of input bytes, at random after a while, at random not at
// all but with an error. It plays once without a queue, and with one: with three slots, and with more. `starve`: memory runs out at random, in the library alone. Ends with 0 and a line if every answer was right.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <mutex>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cnna_host.h"
#include "played_accelerator.h"
#include "watch.h"

namespace {

constexpr uint32_t FEW = 31;
constexpr int64_t LONG = 100000;  // runs after which memory has found its size

std::atomic<uint32_t> starving{0};  // one allocation of so many fails; 0: none
std::atomic<uint32_t> allocations{0};

// Lets the library's door and no more of this thread run out of memory.
template <typename Call>
auto starved(Call call) {
    spared = false;
    const auto found = call();
    spared = true;
    return found;
}

}  // namespace

__attribute__((noinline)) void *operator new(size_t bytes) {
    const uint32_t each = starving;
    if (each && !spared && ++allocations % each == 0) throw std::bad_alloc();
    if (void *made = std::malloc(bytes)) return made;
    throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void *memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void *memory, size_t) noexcept { std::free(memory); }

namespace {

long resident_kb() {
    std::ifstream file("/proc/self/status");
    for (std::string word; file >> word;)
        if (word == "VmRSS:") return file >> word, std::atol(word.c_str());
    return 0;
}

cnna_port port_of(int64_t channels, int64_t rows, int64_t columns) {
    cnna_port made{};
    made.ci = 4;
    made.folded[0] = channels, made.folded[1] = rows, made.folded[2] = columns;
    made.step[0] = made.step[1] = made.span[0] = made.span[1] = 1;
    made.row_bytes = columns * made.ci;
    made.block_bytes = rows * made.row_bytes;
    made.image_bytes = (channels + made.ci - 1) / made.ci * made.block_bytes;
    made.zero = -3, made.scale = 0.5f;
    return made;
}

constexpr int64_t CHANNELS = 9, HIGH = 9, WIDE = 7, CLASSES = 4, BOXES = CHANNELS - CLASSES - 1;  // a box of each cell: BOXES, CLASSES, objectness
constexpr size_t MOST = HIGH * WIDE;

// A detector on the answer, whose objectness lies in the last block alone; or one of areas, in a channel of the first block.
struct Detector {
    int64_t channels = CHANNELS, cells = HIGH * WIDE, port = 0;
    std::vector<float> table = std::vector<float>(256);
    cnna_grid grid{HIGH, WIDE, 0, WIDE, 1, {0, BOXES, 0}, {0, CHANNELS - 1, 0}, {}};
    cnna_heads heads{CLASSES, 1, CNNA_TABLES, 1, 1, 1, &channels, &cells, table.data(), &grid, {0, 0}};
    cnna_wanted wanted{0.6f, 0.9f, 0, int64_t{MOST} * CLASSES, int64_t{MOST}};
    cnna_detector detector{&heads, &wanted, &port};

    explicit Detector(bool areas = false) {
        if (areas) grid.classes[1] = 1, grid.objectness[0] = -1, heads.labels = 1, heads.scores = CNNA_AREAS, wanted.least = 0.3f;
        for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i) / 255;
        const float low = areas ? -0.2f : 0;  // so that half of the cells pass, and areas have edges
        for (float &score : table) score += low;
        for (int64_t side = 0; side < BOXES; ++side) grid.box[side] = {0, side, 1, 0, 0, 2, 3, 20};
    }
    Detector(const Detector &) = delete;
    Detector &operator=(const Detector &) = delete;
};

struct Detections {
    std::vector<float> boxes = std::vector<float>(4 * MOST), scores = std::vector<float>(MOST);
    std::vector<int64_t> labels = std::vector<int64_t>(MOST);
    int64_t count = 0;

    // Whether they are the same; what lies behind the last says nothing.
    bool operator==(const Detections &other) const {
        const auto same = [this](const auto &a, const auto &b, int64_t each) { return std::equal(a.begin(), a.begin() + each * count, b.begin()); };
        return count == other.count && same(boxes, other.boxes, 4) && same(scores, other.scores, 1) && same(labels, other.labels, 1);
    }
};

struct Given {
    std::vector<int8_t> x;
    std::vector<float> y;
    Detections found;
    const Detector *detects = nullptr;
    cnna_tensor tensor{};
    uint32_t counters[1] = {};
};

// This processor's own instructions, where it has them: memory that is coherent keeps what it held.
void own_lines() {
    const size_t line = cnna_cache_line();
    if (line & (line - 1) || (line && line < 16)) fail("no size of a line", 0);
    std::vector<uint8_t> memory(3 * LINE + 5, 7), before = memory;
    for (size_t at = 0; at < 2 * LINE; at += 13) {
        memory[at] = before[at] = static_cast<uint8_t>(at);
        cnna_cache_clean(nullptr, memory.data() + at, memory.size() - at);
        cnna_cache_invalidate(nullptr, memory.data() + at, memory.size() - at);
        if (memory != before) fail("a line lost what it held", 0);
    }
}

// The turn of runs that take it for themselves: a file with a holder's name. Now and then something is in the way.
class Turns {
  public:
    Turns() {
        if (file_ < 0 || pwrite(file_, HOLDER, sizeof HOLDER, 0) != sizeof HOLDER) fail("no file for turns", 0);
        std::snprintf(path_, sizeof path_, "/proc/self/fd/%d", file_);
    }
    ~Turns() { close(file_); }
    Turns(const Turns &) = delete;
    Turns &operator=(const Turns &) = delete;

    // As cnna_loop_run. Where the loop finds the turn busy, the job is submitted.
    int run(cnna_loop *loop, const cnna_job &job, double seconds, uint64_t drawn) const {
        const uint64_t odd = drawn % 8;  // 0: the lock is another's; 1, 2: the file names another; 3: a register holds another word
        const int other = odd == 0 ? open(path_, O_RDWR) : -1;
        if (odd == 0 && flock(other, LOCK_EX | LOCK_NB)) fail("a turn was kept", 0);
        const char *holder = odd == 1 ? "rix" : HOLDER;
        const cnna_write image{IMAGE, odd == 3};
        cnna_turn turn{file_, 7, reinterpret_cast<const uint8_t *>(holder), int64_t{sizeof HOLDER} - (odd == 2), 1, &image};
        const int code = cnna_loop_run_in_turn(loop, &job, &turn, seconds);
        if (odd < 4 && code != CNNA_BUSY && code != CNNA_MEMORY) fail("a run without a turn", 0);
        if (turn.kept != (code == CNNA_EXPIRED)) fail("a turn is lost", 0);
        if (turn.kept) flock(file_, LOCK_UN);
        if (other >= 0) close(other);
        taken_ += code == CNNA_OK || code == CNNA_EXPIRED;
        return code == CNNA_BUSY ? cnna_loop_submit(loop, &job) : code;
    }

    int64_t taken() const { return taken_; }

  private:
    static constexpr char HOLDER[] = "rig";
    const int file_ = memfd_create("turns", MFD_CLOEXEC);
    char path_[32] = {};
    mutable int64_t taken_ = 0;
};

// Returns by how many kB memory grew in the second half of the runs.
long played(int64_t runs, uint64_t seed, const std::string &forget, Layout layout, Way way) {
    std::mt19937_64 random(seed);
    const int64_t columns = layout.columns;
    const cnna_port in = port_of(6, 5, columns), out = port_of(CHANNELS, HIGH, WIDE);
    Board board(static_cast<size_t>(in.image_bytes), static_cast<size_t>(out.image_bytes), forget, random(), layout.begin);
    const size_t elements = CHANNELS * HIGH * WIDE;
    const Detector of_boxes, of_areas(true);
    int64_t boxes[2] = {};  // of each

    const cnna_write words[MOST_SLOTS] = {{SLOT, 0}, {SLOT, 1}, {SLOT, 2}, {SLOT, 3}};
    uint8_t *memories[MOST_SLOTS * 2] = {};
    for (size_t slot = 0; slot < MOST_SLOTS; ++slot)
        memories[2 * slot] = board.inputs[slot].host(), memories[2 * slot + 1] = board.outputs[slot].host();
    const cnna_program program{1, 1, 1, static_cast<int64_t>(way.slots), 1, &in, &out, words, memories};
    const uint32_t counter = CYCLES;
    const cnna_device device{board.registers, 1, 1, 1, &program, &counter, &counter, CTRL, START, STATUS, DONE, ERROR, 0,
                             way.queue ? QUEUE : 0, LIVE, FINISHED, PLACES, -1, THREADS, 1, 0, 20.0,
                             {clean, invalidate, &board}};
    board.queue = way.queue;
    Player player(board);  // here, where no memory runs out
    std::thread accelerator([&player] { player.play(); });
    cnna_loop *loop = nullptr;
    int opened = CNNA_MEMORY;
    for (uint32_t first = 1; opened == CNNA_MEMORY && first < 1000; ++first) {  // allocation number `first` fails, then the next one
        starving = forget == "starve" ? first : 0, allocations = 0;
        opened = starved([&] { return cnna_loop_open(&device, &loop); });
    }
    starving = forget == "starve" ? FEW : 0;
    if (opened != CNNA_OK) fail("it does not open", 0);

    Turns turns;
    std::deque<Given> open;
    std::vector<uint8_t> packed(static_cast<size_t>(in.image_bytes)), answered(static_cast<size_t>(out.image_bytes));
    std::vector<float> wanted(elements);
    int64_t submitted = 0, seen = 0, failed = 0, refused = 0, starved_runs = 0;
    long before = 0, counted = 0;
    begins(seen);
    while (seen < runs) {
        // Eight runs with others open, then eight without them, once those have ended: a caller may do its work itself.
        const size_t most = seen / 8 % 2 == 0 && random() % 2 ? way.slots + 1 + way.queue : 1;
        while (submitted < runs && open.size() < most) {
            Given &given = open.emplace_back();
            given.x.resize(static_cast<size_t>(6 * 5 * columns)), given.y.resize(elements);
            for (int8_t &value : given.x) value = static_cast<int8_t>(random());
            given.tensor = {given.x.data(), CNNA_INT8, {1, 6, 5, columns}, {30 * columns, 5 * columns, columns, 1}};
            const int8_t *table = nullptr;
            void *place = given.y.data();
            const int64_t type = CNNA_FLOAT32;
            given.detects = random() % 2 ? random() % 2 ? &of_boxes : &of_areas : nullptr;
            Detections &found = given.found;
            void *const places[CNNA_DETECTED] = {found.boxes.data(), found.scores.data(), found.labels.data(), &found.count};
            const size_t rooms[CNNA_DETECTED] = {4 * MOST, MOST, MOST, 1};
            const cnna_job job{0, &given.tensor, &table, given.detects ? places : &place, &type, given.detects ? rooms : &elements, given.counters, nullptr,
                               given.detects ? &given.detects->detector : nullptr};
            const uint64_t call = random() % 4;
            const double seconds = static_cast<double>(random() % 3) * 20e-6;  // some end in them, and some are left to the thread
            int code = CNNA_MEMORY;
            for (--refused; code == CNNA_MEMORY; ++refused)
                code = starved([&] {
                    if (call > 1) return cnna_loop_submit(loop, &job);
                    return call ? cnna_loop_run(loop, &job, seconds) : turns.run(loop, job, seconds, random());
                });
            if (code != CNNA_OK && code != CNNA_EXPIRED) fail("a job is refused", submitted);
            ++submitted;
        }
        int64_t ended;
        const int code = cnna_loop_wait(loop, seen, 30.0, &ended);
        if (code == CNNA_STOPPED || code == CNNA_MEMORY) {  // what a driver does: a reset, then the same job again
            ++(code == CNNA_STOPPED ? failed : starved_runs);
            if (board.reset() && code == CNNA_MEMORY) --board.errors;  // of a run that was stopped too
            cnna_loop_retry(loop);
            continue;
        }
        if (code != CNNA_OK) fail("no end", seen);
        const Given &given = open.front();
        cnna_pack(&in, &given.tensor, nullptr, 1, packed.data(), packed.size());
        answer(packed.data(), packed.size(), answered.data(), answered.size());
        if (given.detects) {
            const cnna_head head{reinterpret_cast<const int8_t *>(answered.data()), out.ci, out.block_bytes};
            Detections right;
            cnna_detect(&given.detects->heads, &head, &given.detects->wanted, right.boxes.data(), right.scores.data(), right.labels.data(), &right.count);
            if (!(given.found == right)) fail("a wrong answer", seen);
            boxes[given.detects == &of_areas] += right.count;
        } else {
            cnna_unpack(&out, answered.data(), answered.size(), 1, CNNA_FLOAT32, wanted.data(), elements);
            if (given.y != wanted) fail("a wrong answer", seen);
        }
        if (given.counters[0] ? given.counters[0] != tag(packed.data(), packed.size()) : !way.queue) fail("another run's counters", seen);
        counted += given.counters[0] != 0;
        open.pop_front();
        if (++seen == runs / 2) before = resident_kb();
        begins(seen);  // not where a run is tried again, for ever perhaps
    }
    const long grown = resident_kb() - before;
    cnna_loop_close(loop);
    board.over = true;
    accelerator.join();
    starving = 0;
    if (forget.empty() && !turns.taken()) fail("no run took a turn for itself", 0);
    if (!boxes[0] || !boxes[1]) fail("no box was found", 0);
    if (way.queue && (!board.queued || !counted)) fail("no run was queued behind another, or counted", board.queued);
    if (way.queue && runs >= LONG && !board.late) fail("no run was queued after an error", 0);
    if (failed != board.errors) fail("an error was lost", failed);
    if (forget == "starve" && (!refused || !starved_runs)) fail("memory has never run out", refused);
    std::printf("%lld answers right, %lld errors tried again, %d runs queued behind others, %d after an error, %ld counted, memory grew by %ld kB\n",
                static_cast<long long>(seen), static_cast<long long>(failed), board.queued.load(), board.late.load(), counted, grown);
    return grown;
}

}  // namespace

int main(int count, char **arguments) {
    if (count < 3) fail("usage: loop_rig RUNS SEED [forget-clean | forget-invalidate | starve | none] [apart]", 0);
    const int64_t runs = std::atoll(arguments[1]);
    const uint64_t seed = std::strtoull(arguments[2], nullptr, 10);
    const std::string forget = count > 3 ? arguments[3] : "";
    spared = true;
    own_lines();
    const bool together = count < 5;
    long grown = 0;
    for (const Way way : {PLAIN, QUEUED}) {
        if (together) grown = std::max(grown, played(runs, seed, forget, TOGETHER, way));
        grown = std::max(grown, played(runs, seed, forget, APART, way));
    }
    grown = std::max(grown, played(runs, seed, forget, APART, DEEP));
    return runs >= LONG && grown > 1024 ? 2 : 0;
}
