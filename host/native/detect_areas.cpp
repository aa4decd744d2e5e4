// Areas of a map, as of text: cells that pass and touch each other are one. `cnna.spec.detection.areas` has the same in numpy.
//
// Each row's cells become runs. A run joins those of the row before that it touches, and an area is known by its first run.
#include <algorithm>
#include <cstring>

#include "detect.h"
#include "vectors.h"

namespace cnna {

namespace {

constexpr float CELL_SCORE = 0.3f;  // from which on a cell belongs to an area
constexpr double GROWTH = 1.5;      // of an area divided by its edge: how far a box grows on each side, since such maps are shrunk
constexpr int64_t LEAST_SIDE = 3;   // in cells, of the shorter side, from the middle of the first cell to that of the last

struct Run {
    int64_t row, begin, end, parent;
};

struct Area {
    int64_t left, top, right, bottom, cells;
    double score;
};

int64_t root(std::vector<Run> &runs, int64_t number) {
    while (runs[static_cast<size_t>(number)].parent != number) {
        int64_t &parent = runs[static_cast<size_t>(number)].parent;
        parent = runs[static_cast<size_t>(parent)].parent;
        number = parent;
    }
    return number;
}

void join(std::vector<Run> &runs, int64_t a, int64_t b) {
    a = root(runs, a), b = root(runs, b);
    runs[static_cast<size_t>(std::max(a, b))].parent = std::min(a, b);
}

using Signed16 = int8_t __attribute__((vector_size(LANES)));

// The first cell from `at` on that is at least `limit`. Most cells are not, so 16 are looked at together.
int64_t next_cell(const int8_t *q, int64_t at, int64_t columns, int limit) {
    for (; at + static_cast<int64_t>(LANES) <= columns; at += LANES) {
        Signed16 values;
        std::memcpy(&values, q + at, LANES);
        const Signed16 reached = values >= static_cast<int8_t>(limit);
        int64_t halves[2];
        std::memcpy(halves, &reached, LANES);
        if (halves[0] | halves[1]) break;
    }
    while (at < columns && q[at] < limit) ++at;
    return at;
}

std::vector<Run> runs_of(const int8_t *q, int64_t rows, int64_t columns, int limit) {
    std::vector<Run> runs;
    size_t above, first = 0;  // the first run of the row before that may be touched, and of this row
    for (int64_t row = 0; row < rows; ++row, q += columns) {
        const size_t last = runs.size();
        above = first, first = last;
        for (int64_t at = next_cell(q, 0, columns, limit); at < columns; at = next_cell(q, at, columns, limit)) {
            const int64_t begin = at, number = static_cast<int64_t>(runs.size());
            while (at < columns && q[at] >= limit) ++at;
            runs.push_back({row, begin, at, number});
            while (above < last && runs[above].end < begin) ++above;
            for (size_t other = above; other < last && runs[other].begin <= at; ++other) join(runs, static_cast<int64_t>(other), number);
        }
    }
    return runs;
}

}  // namespace

void areas(const cnna_heads &heads, const Tensors &tensors, const cnna_wanted &wanted, int64_t number, Surest &found,
           std::vector<Box> &boxes) {
    const cnna_grid &grid = heads.grid[number];
    const int8_t *q = tensors.channel(grid.classes[0], grid.classes[1]);
    const float *scores = table(heads, grid.classes[2]);
    const int limit = least_integer(scores, CELL_SCORE);
    if (limit >= NEVER) return;
    std::vector<Run> runs = runs_of(q, grid.rows, grid.columns, limit);
    std::vector<Area> sums(runs.size(), {grid.columns, 0, 0, 0, 0, 0.0});
    for (size_t one = 0; one < runs.size(); ++one) {
        const Run &run = runs[one];
        Area &sum = sums[static_cast<size_t>(root(runs, static_cast<int64_t>(one)))];
        if (!sum.cells) sum.top = run.row;
        sum.bottom = run.row;
        sum.left = std::min(sum.left, run.begin), sum.right = std::max(sum.right, run.end - 1);
        sum.cells += run.end - run.begin;
        for (int64_t at = run.begin; at < run.end; ++at) sum.score += static_cast<double>(scores[q[run.row * grid.columns + at]]);
    }
    for (size_t one = 0; one < runs.size(); ++one) {
        const Area &sum = sums[one];
        const int64_t wide = sum.right - sum.left, high = sum.bottom - sum.top;
        if (!sum.cells || std::min(wide, high) < LEAST_SIDE) continue;
        const auto score = static_cast<float>(sum.score / static_cast<double>(sum.cells));
        if (!(score >= wanted.least)) continue;
        const double grown = GROWTH * static_cast<double>(wide * high) / static_cast<double>(2 * (wide + high));
        const double down = grid.box[1].down, across = grid.box[0].across;
        const auto pixels = [](int64_t cell, double more, double size) { return static_cast<float>((static_cast<double>(cell) + more) * size); };
        boxes.push_back({pixels(sum.left, -grown, across), pixels(sum.top, -grown, down), pixels(sum.right, grown, across),
                         pixels(sum.bottom, grown, down)});
        const int64_t first = runs[one].row * grid.columns + runs[one].begin;
        found.add({score, static_cast<int32_t>(number), 0, first, static_cast<int64_t>(boxes.size()) - 1});
    }
}

}  // namespace cnna
