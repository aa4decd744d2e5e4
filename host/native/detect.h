// A detector's candidates, for the sources that find and decode them: detect_scan.cpp, detect_areas.cpp, detect.cpp.
#ifndef CNNA_DETECT_H
#define CNNA_DETECT_H

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "cnna_host.h"

namespace cnna {

constexpr int64_t VALUES = 256, HALF = 128, NEVER = 128;  // of int8; the last is a least integer that none reaches

using Box = std::array<float, 4>;

// A box that passes. Candidates are ordered by score, then class, then row of the model's output.
struct Candidate {
    float score;
    int32_t grid;
    int64_t label, row, cell;
};

inline bool before(const Candidate &a, const Candidate &b) {
    if (a.score != b.score) return a.score > b.score;
    return a.label != b.label ? a.label < b.label : a.row < b.row;
}

// The surest candidates, `most` at any time but for the newest.
class Surest {
  public:
    explicit Surest(int64_t most) : most_(static_cast<size_t>(most)) { found_.reserve(std::min<size_t>(2 * most_, 1024)); }

    void add(const Candidate &one) {
        if (full_ && !before(one, last_)) return;
        found_.push_back(one);
        if (found_.size() >= 2 * most_) cut();
    }

    std::vector<Candidate> &sorted() {
        if (found_.size() > most_) cut();
        std::sort(found_.begin(), found_.end(), before);
        return found_;
    }

  private:
    void cut() {
        const auto end = found_.begin() + static_cast<std::ptrdiff_t>(most_) - 1;
        std::nth_element(found_.begin(), end, found_.end(), before);
        last_ = *end;
        full_ = true;
        found_.resize(most_);
    }

    const size_t most_;
    bool full_ = false;
    Candidate last_{};
    std::vector<Candidate> found_;
};

inline const float *table(const cnna_heads &heads, int64_t number) { return heads.table + number * VALUES + HALF; }

// Head tensors where they lie. before: called before so many channels of so many cells are read, from `channel` and `cell` on; their lines may
// be stale. It is not called for what a scan reads of every cell (`scanned`). Empty: no line is stale.
struct Tensors {
    const cnna_head *head;
    std::function<void(int64_t head, int64_t channel, int64_t count, int64_t cell, int64_t cells)> before;

    // The integer of a channel in the first cell; the other cells lie `word` bytes apart.
    const int8_t *channel(int64_t number, int64_t channel) const {
        const cnna_head &one = head[number];
        return one.data + channel / one.word * one.block + channel % one.word;
    }
    // Calls `with` for so many channels as `channel` gives them, without a division for each.
    template <typename With>
    void each(int64_t number, int64_t first, int64_t count, With with) const {
        const cnna_head &one = head[number];
        const int8_t *at = channel(number, first);
        for (int64_t lane = first % one.word; count; --count) {
            with(at++);
            if (++lane == one.word) at += one.block - one.word, lane = 0;
        }
    }

    void look(int64_t number, int64_t channel, int64_t count, int64_t cell, int64_t cells = 1) const {
        if (before) before(number, channel, count, cell, cells);
    }
};

// Which channels of a grid a scan reads of every cell, unless it looks for areas: head, first channel, and how many.
struct Scanned {
    int64_t head, channel, count;
};

inline Scanned scanned(const cnna_heads &heads, const cnna_grid &grid) {
    if (grid.objectness[0] >= 0) return {grid.objectness[0], grid.objectness[1], 1};
    return {grid.classes[0], grid.classes[1], heads.labels + (heads.scores == CNNA_SOFTMAX)};
}

// The least integer whose score counts. Tables rise.
inline int least_integer(const float *scores, float least) {
    int value = static_cast<int>(NEVER);
    while (value > -HALF && !(scores[value - 1] < least)) --value;
    return value;
}

// Adds what passes in a grid.
void scan(const cnna_heads &heads, const Tensors &tensors, const cnna_wanted &wanted, int64_t number, Surest &found);

// Adds the areas of a map that lie together and whose score passes; a candidate's `cell` is then the number of its box.
void areas(const cnna_heads &heads, const Tensors &tensors, const cnna_wanted &wanted, int64_t number, Surest &found,
           std::vector<Box> &boxes);

// Whether the numbers of a detector are sound, and those of its tensors: nothing beyond them would be read.
bool sound(const cnna_heads &heads, const cnna_wanted &wanted);
bool sound(const cnna_heads &heads, const cnna_head *tensors);

// As cnna_detect.
int detect(const cnna_heads &heads, const Tensors &tensors, const cnna_wanted &wanted, float *boxes, float *scores, int64_t *labels, int64_t &count);

}  // namespace cnna

#endif
