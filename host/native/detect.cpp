// From a detector's int8 head tensors to its boxes: a scan by integer thresholds, the decode of what passes, and suppression.
//
// `cnna.spec.detection` has the same in numpy, equal to the bit: the order of float32 operations is its.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "checks.h"
#include "cnna_host.h"
#include "vectors.h"

namespace cnna {

namespace {

constexpr int64_t VALUES = 256, HALF = 128, NEVER = 128;  // of int8; the last is a least integer that none reaches
constexpr int64_t MOST_BINS = 256;
constexpr size_t TILE_PARTS = 4;
constexpr int64_t TILE = TILE_PARTS * LANES;               // cells whose greatest class is looked for together
constexpr int64_t MOST_NUMBERS = int64_t{1} << 30;        // of cells, rows and channels: products of two fit into 64 bits

// A box that passes. Candidates are ordered by score, then class, then row of the model's output.
struct Candidate {
    float score;
    int32_t grid;
    int64_t label, row, cell;
};

bool before(const Candidate &a, const Candidate &b) {
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

const float *table(const cnna_heads &heads, int64_t number) { return heads.table + number * VALUES + HALF; }

const int8_t *plane(const cnna_heads &heads, const int8_t *const *tensors, int64_t head, int64_t channel) {
    return tensors[head] + channel * heads.cells[head];
}

// The least integer whose score counts. Tables rise.
int least_integer(const float *scores, float least) {
    int value = static_cast<int>(NEVER);
    while (value > -HALF && !(scores[value - 1] < least)) --value;
    return value;
}

// The least integer of a class for each integer of the objectness, from -128 on: the surer that is, the less a class needs.
std::array<int16_t, VALUES> least_integers(const float *scores, const float *sure, float least) {
    std::array<int16_t, VALUES> found;
    int value = static_cast<int>(NEVER);
    for (int there = -static_cast<int>(HALF); there < HALF; ++there) {
        while (value > -HALF && !(scores[value - 1] * sure[there] < least)) --value;
        found[static_cast<size_t>(there + HALF)] = static_cast<int16_t>(value);
    }
    return found;
}

using Signed16 = int8_t __attribute__((vector_size(LANES)));

Signed16 signed16(const int8_t *from) {
    Signed16 made;
    std::memcpy(&made, from, LANES);
    return made;
}

// Whether one of 16 integers is at least `limit`.
bool some_of(Signed16 values, int8_t limit) {
    const Signed16 reached = values >= limit;
    int64_t halves[2];
    std::memcpy(halves, &reached, LANES);
    return halves[0] | halves[1];
}

// The greatest integer of each of 64 cells: planes lie `cells` bytes apart.
void greatest64(const int8_t *classes, int64_t labels, int64_t cells, Signed16 (&most)[TILE_PARTS]) {
    for (size_t part = 0; part < TILE_PARTS; ++part) most[part] = signed16(classes + part * LANES);
    for (int64_t label = 1; label < labels; ++label) {
        classes += cells;
        for (size_t part = 0; part < TILE_PARTS; ++part) {
            const Signed16 own = signed16(classes + part * LANES);
            most[part] = own > most[part] ? own : most[part];
        }
    }
}

// One grid, as a scan sees it.
struct Scan {
    const cnna_grid &grid;
    int32_t number;
    int64_t cells, labels;
    const int8_t *classes, *there;  // there: null without objectness
    const float *scores, *sure;
    bool best;
    Surest &found;

    int64_t row(int64_t cell) const { return grid.first + grid.down * (cell / grid.columns) + grid.across * (cell % grid.columns); }

    float score(int64_t label, int64_t cell) const {
        const float one = scores[classes[label * cells + cell]];
        return there ? one * sure[there[cell]] : one;
    }

    // A cell in which some class may reach the limit.
    void hit(int64_t cell, int limit) {
        if (best) {
            int8_t most = classes[cell];
            for (int64_t label = 1; label < labels; ++label) most = std::max(most, classes[label * cells + cell]);
            if (most < limit) return;
            int64_t label = 0;
            for (int64_t other = 1; other < labels; ++other)
                if (score(other, cell) > score(label, cell)) label = other;
            found.add({score(label, cell), number, label, row(cell), cell});
            return;
        }
        for (int64_t label = 0; label < labels; ++label)
            if (classes[label * cells + cell] >= limit) found.add({score(label, cell), number, label, row(cell), cell});
    }

    void by_objectness(float least) {
        const auto limits = least_integers(scores, sure, least);
        const auto first = std::find_if(limits.begin(), limits.end(), [](int16_t limit) { return limit < NEVER; });
        if (first == limits.end()) return;
        const auto lowest = static_cast<int8_t>(first - limits.begin() - HALF);
        for (int64_t cell = 0; cell < cells;) {
            const bool whole = cell + static_cast<int64_t>(LANES) <= cells;
            const int64_t end = whole ? cell + static_cast<int64_t>(LANES) : cells;
            if (whole && !some_of(signed16(there + cell), lowest)) {
                cell = end;
                continue;
            }
            for (; cell < end; ++cell)
                if (there[cell] >= lowest) hit(cell, limits[static_cast<size_t>(there[cell] + HALF)]);
        }
    }

    // The greatest integer of each cell of a tile comes first, in a loop without branches.
    void by_class(float least) {
        const int limit = least_integer(scores, least);
        if (limit >= NEVER) return;
        int64_t cell = 0;
        Signed16 most[TILE_PARTS];
        for (; cell + TILE <= cells; cell += TILE) {
            greatest64(classes + cell, labels, cells, most);
            for (size_t part = 0; part < TILE_PARTS; ++part) {
                if (!some_of(most[part], static_cast<int8_t>(limit))) continue;
                for (size_t lane = 0; lane < LANES; ++lane)
                    if (most[part][lane] >= limit) hit(cell + static_cast<int64_t>(part * LANES + lane), limit);
            }
        }
        for (; cell < cells; ++cell) hit(cell, limit);
    }
};

void scan(const cnna_heads &heads, const int8_t *const *tensors, const cnna_wanted &wanted, int64_t number, Surest &found) {
    const cnna_grid &grid = heads.grid[number];
    const bool objectness = grid.objectness[0] >= 0;
    Scan one{grid,
             static_cast<int32_t>(number),
             grid.rows * grid.columns,
             heads.labels,
             plane(heads, tensors, grid.classes[0], grid.classes[1]),
             objectness ? plane(heads, tensors, grid.objectness[0], grid.objectness[1]) : nullptr,
             table(heads, grid.classes[2]),
             objectness ? table(heads, grid.objectness[2]) : nullptr,
             wanted.best != 0,
             found};
    if (objectness)
        one.by_objectness(wanted.least);
    else
        one.by_class(wanted.least);
}

// The mean number of a bin, added bin by bin.
float mean(const float *weights, const int8_t *q, int64_t bins, int64_t cells) {
    int most = q[0];
    for (int64_t bin = 1; bin < bins; ++bin) most = std::max(most, static_cast<int>(q[bin * cells]));
    float whole = weights[most - q[0]], moment = 0.0f;
    for (int64_t bin = 1; bin < bins; ++bin) {
        const float weight = weights[most - q[bin * cells]];
        whole += weight;
        moment += static_cast<float>(bin) * weight;
    }
    return moment / whole;
}

float number_of(const cnna_heads &heads, const int8_t *const *tensors, const cnna_number &one, int64_t row, int64_t column, int64_t cell) {
    const int8_t *q = plane(heads, tensors, one.head, one.channel) + cell;
    const float *values = table(heads, one.table);
    const float value = one.bins == 1 ? values[*q] : mean(values - HALF, q, one.bins, heads.cells[one.head]);
    const float place = one.base + one.down * static_cast<float>(row) + one.across * static_cast<float>(column);
    return place + one.factor * value;
}

void box_of(const cnna_heads &heads, const int8_t *const *tensors, const Candidate &one, float *box) {
    const cnna_grid &grid = heads.grid[one.grid];
    const int64_t row = one.cell / grid.columns, column = one.cell % grid.columns;
    for (int side = 0; side < 4; ++side) box[side] = number_of(heads, tensors, grid.box[side], row, column, one.cell);
    if (!heads.centre) return;
    const float wide = box[2] * 0.5f, high = box[3] * 0.5f, x = box[0], y = box[1];
    box[0] = x - wide, box[1] = y - high, box[2] = x + wide, box[3] = y + high;
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
    bool whole = within(grid.first, 0, MOST_NUMBERS) && within(grid.down, 0, MOST_NUMBERS) && within(grid.across, 0, MOST_NUMBERS) &&
                 sound(heads, grid.classes, heads.labels, cells) && (grid.objectness[0] < 0 || sound(heads, grid.objectness, 1, cells));
    for (const cnna_number &one : grid.box) {
        const int64_t field[] = {one.head, one.channel, one.table};
        whole = whole && within(one.bins, 1, MOST_BINS) && sound(heads, field, one.bins, cells);
    }
    return whole;
}

bool coherent(const cnna_heads &heads, const int8_t *const *tensors, const cnna_wanted &wanted) {
    if (!within(heads.labels, 1, MOST_SIZE) || !within(heads.heads, 1, MOST_COUNT) || !within(heads.tables, 1, MOST_SIZE) ||
        !within(heads.grids, 1, MOST_COUNT) || !heads.channels || !heads.cells || !heads.table || !heads.grid || !tensors)
        return false;
    for (int64_t head = 0; head < heads.heads; ++head)
        if (!tensors[head] || !within(heads.channels[head], 1, MOST_SIZE) || !within(heads.cells[head], 1, MOST_NUMBERS)) return false;
    for (int64_t number = 0; number < heads.grids; ++number)
        if (!sound(heads, heads.grid[number])) return false;
    return wanted.overlap >= 0 && wanted.least == wanted.least && within(wanted.candidates, 1, MOST_SIZE) && within(wanted.most, 1, MOST_SIZE);
}

int detect(const cnna_heads &heads, const int8_t *const *tensors, const cnna_wanted &wanted, float *boxes, float *scores, int64_t *labels,
           int64_t &count) {
    Surest surest(wanted.candidates);
    for (int64_t number = 0; number < heads.grids; ++number) scan(heads, tensors, wanted, number, surest);
    std::vector<int64_t> last(static_cast<size_t>(heads.labels), -1);
    Kept kept(wanted.overlap);
    count = 0;
    for (const Candidate &one : surest.sorted()) {
        float *box = boxes + 4 * count;
        box_of(heads, tensors, one, box);
        if (!kept.add(box, last[static_cast<size_t>(one.label)])) continue;
        scores[count] = one.score;
        labels[count] = one.label;
        if (++count == wanted.most) break;
    }
    return CNNA_OK;
}

}  // namespace

}  // namespace cnna

int cnna_detect(const cnna_heads *heads, const int8_t *const *tensors, const cnna_wanted *wanted, float *boxes, float *scores,
                int64_t *labels, int64_t *count) {
    return cnna::guarded([&] {
        if (!heads || !wanted || !boxes || !scores || !labels || !count || !cnna::coherent(*heads, tensors, *wanted)) return int{CNNA_ARGUMENT};
        return cnna::detect(*heads, tensors, *wanted, boxes, scores, labels, *count);
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
