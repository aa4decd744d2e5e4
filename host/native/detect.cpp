// From a detector's int8 head tensors to its boxes: the scan's candidates, the decode of the surest, and suppression.
//
// `cnna.spec.detection` has the same in numpy, equal to the bit: the order of float32 operations is its.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "checks.h"
#include "detect.h"

namespace cnna {

namespace {

constexpr int64_t MOST_BINS = 256, MOST_WORD = 4096;  // of a number; channels of a word
constexpr int64_t MOST_NUMBERS = int64_t{1} << 30;  // of cells, rows and channels: products of two fit into 64 bits

// The mean number of a bin, added bin by bin.
float mean(const float *weights, const int8_t *q, int64_t bins) {
    int most = q[0];
    for (int64_t bin = 1; bin < bins; ++bin) most = std::max(most, static_cast<int>(q[bin]));
    float whole = weights[most - q[0]], moment = 0.0f;
    for (int64_t bin = 1; bin < bins; ++bin) {
        const float weight = weights[most - q[bin]];
        whole += weight;
        moment += static_cast<float>(bin) * weight;
    }
    return moment / whole;
}

float number_of(const cnna_heads &heads, const Tensors &tensors, const cnna_number &one, int64_t row, int64_t column, int64_t cell) {
    int8_t q[MOST_BINS];
    tensors.look(one.head, one.channel, one.bins, cell);
    const int64_t at = cell * tensors.head[one.head].word;
    int8_t *next = q;
    tensors.each(one.head, one.channel, one.bins, [&](const int8_t *channel) { *next++ = channel[at]; });
    const float *values = table(heads, one.table);
    const float value = one.bins == 1 ? values[*q] : mean(values - HALF, q, one.bins);
    const float place = one.base + one.down * static_cast<float>(row) + one.across * static_cast<float>(column);
    return place + one.factor * value;
}

void box_of(const cnna_heads &heads, const Tensors &tensors, const Candidate &one, float *box) {
    const cnna_grid &grid = heads.grid[one.grid];
    const int64_t row = one.cell / grid.columns, column = one.cell % grid.columns;
    for (int side = 0; side < 4; ++side) box[side] = number_of(heads, tensors, grid.box[side], row, column, one.cell);
    if (heads.centre) {
        const float wide = box[2] * 0.5f, high = box[3] * 0.5f, x = box[0], y = box[1];
        box[0] = x - wide, box[1] = y - high, box[2] = x + wide, box[3] = y + high;
    }
    if (heads.edge[0] == 0) return;
    for (int side = 0; side < 4; ++side) box[side] = std::min(box[side] > 0.0f ? box[side] : 0.0f, static_cast<float>(heads.edge[side % 2]));
}

float side_of(float low, float high) { return high - low < 0 ? 0 : high - low; }

float area_of(const float *box) { return side_of(box[0], box[2]) * side_of(box[1], box[3]); }

// Boxes that stay, and whether another overlaps one of them by more than `overlap`.
class Kept {
  public:
    explicit Kept(float overlap) : overlap_(overlap) {}

    // Keeps a box unless it is a double of one that is kept, from `last` on along the chain of its class.
    bool add(const float *box, int64_t &last) {
        const float area = area_of(box);
        for (int64_t number = last; number >= 0; number = boxes_[static_cast<size_t>(number)].before)
            if (doubles(boxes_[static_cast<size_t>(number)], box, area)) return false;
        boxes_.push_back({{box[0], box[1], box[2], box[3]}, area, last});
        last = static_cast<int64_t>(boxes_.size()) - 1;
        return true;
    }

  private:
    struct One {
        float box[4], area;
        int64_t before;  // in its chain; -1: none
    };

    bool doubles(const One &one, const float *box, float area) const {
        if (one.box[2] <= box[0] || box[2] <= one.box[0] || one.box[3] <= box[1] || box[3] <= one.box[1]) return false;  // as most are
        const float wide = side_of(std::max(one.box[0], box[0]), std::min(one.box[2], box[2]));
        const float high = side_of(std::max(one.box[1], box[1]), std::min(one.box[3], box[3]));
        const float shared = wide * high;
        if (shared == 0) return false;
        const float whole = one.area + area - shared;
        return whole > 0 && !(shared / whole <= overlap_);
    }

    const float overlap_;
    std::vector<One> boxes_;
};

bool sound(const cnna_heads &heads, const int64_t *field, int64_t count, int64_t cells) {
    return within(field[0], 0, heads.heads - 1) && within(field[2], 0, heads.tables - 1) && heads.cells[field[0]] == cells &&
           within(field[1], 0, heads.channels[field[0]] - count);
}

bool sound(const cnna_heads &heads, const cnna_grid &grid) {
    if (!within(grid.rows, 1, MOST_SIZE) || !within(grid.columns, 1, MOST_SIZE)) return false;
    const int64_t cells = grid.rows * grid.columns;
    const int64_t classes = heads.labels + (heads.scores == CNNA_SOFTMAX);  // the background's among them
    bool whole = within(grid.first, 0, MOST_NUMBERS) && within(grid.down, 0, MOST_NUMBERS) && within(grid.across, 0, MOST_NUMBERS) &&
                 sound(heads, grid.classes, classes, cells) && (grid.objectness[0] < 0 || sound(heads, grid.objectness, 1, cells));
    for (const cnna_number &one : grid.box) {
        const int64_t field[] = {one.head, one.channel, one.table};
        whole = whole && within(one.bins, 1, MOST_BINS) && sound(heads, field, one.bins, cells);
    }
    return whole;
}

}  // namespace

bool sound(const cnna_heads &heads, const cnna_wanted &wanted) {
    if (!within(heads.scores, CNNA_TABLES, CNNA_AREAS) || !within(heads.labels, 1, MOST_SIZE) || !within(heads.heads, 1, MOST_COUNT) || !within(heads.tables, 1, MOST_SIZE) ||
        !within(heads.grids, 1, MOST_COUNT) || !within(heads.edge[0], 0, MOST_NUMBERS) || !within(heads.edge[1], 0, MOST_NUMBERS) || !heads.channels || !heads.cells || !heads.table || !heads.grid)
        return false;
    for (int64_t head = 0; head < heads.heads; ++head)
        if (!within(heads.channels[head], 1, MOST_SIZE) || !within(heads.cells[head], 1, MOST_NUMBERS)) return false;
    for (int64_t number = 0; number < heads.grids; ++number)
        if (!sound(heads, heads.grid[number])) return false;
    return wanted.overlap >= 0 && wanted.least == wanted.least && within(wanted.candidates, 1, MOST_SIZE) && within(wanted.most, 1, MOST_SIZE);
}

bool sound(const cnna_heads &heads, const cnna_head *tensors) {
    for (int64_t number = 0; number < heads.heads; ++number) {
        const cnna_head &one = tensors[number];
        if (!one.data || !within(one.word, 1, MOST_WORD) || !within(one.block, heads.cells[number] * one.word)) return false;
        if (heads.scores != CNNA_TABLES && heads.scores != CNNA_AREAS && (one.word != 1 || one.block != heads.cells[number])) return false;
    }
    return true;
}

int detect(const cnna_heads &heads, const Tensors &tensors, const cnna_wanted &wanted, float *boxes, float *scores, int64_t *labels, int64_t &count) {
    Surest surest(wanted.candidates);
    std::vector<Box> ready;  // of areas
    for (int64_t number = 0; number < heads.grids; ++number)
        if (heads.scores == CNNA_AREAS)
            areas(heads, tensors, wanted, number, surest, ready);
        else
            scan(heads, tensors, wanted, number, surest);
    std::vector<int64_t> last(static_cast<size_t>(heads.labels), -1);
    Kept kept(wanted.overlap);
    count = 0;
    for (const Candidate &one : surest.sorted()) {
        float *box = boxes + 4 * count;
        if (heads.scores == CNNA_AREAS)
            std::copy_n(ready[static_cast<size_t>(one.cell)].data(), 4, box);
        else
            box_of(heads, tensors, one, box);
        if (!kept.add(box, last[static_cast<size_t>(one.label)])) continue;
        scores[count] = one.score;
        labels[count] = one.label;
        if (++count == wanted.most) break;
    }
    return CNNA_OK;
}

}  // namespace cnna

int cnna_detect(const cnna_heads *heads, const cnna_head *tensors, const cnna_wanted *wanted, float *boxes, float *scores,
                int64_t *labels, int64_t *count) {
    return cnna::guarded([&] {
        if (!heads || !tensors || !wanted || !boxes || !scores || !labels || !count || !cnna::sound(*heads, *wanted) || !cnna::sound(*heads, tensors))
            return int{CNNA_ARGUMENT};
        return cnna::detect(*heads, {tensors, {}}, *wanted, boxes, scores, labels, *count);
    });
}

int cnna_suppress(const float *boxes, size_t count, float overlap, int64_t *kept, size_t *left) {
    return cnna::guarded([&] {
        if (!kept || !left || (count && !boxes) || !(overlap >= 0)) return int{CNNA_ARGUMENT};
        cnna::Kept found(overlap);
        int64_t last = -1;
        *left = 0;
        for (size_t number = 0; number < count; ++number)
            if (found.add(boxes + 4 * number, last)) kept[(*left)++] = static_cast<int64_t>(number);
        return int{CNNA_OK};
    });
}
