// From a detector's int8 head tensors to all rows of the model's own output: boxes, objectness and classes by tables.
//
// `cnna.spec.detection.rows` has the same in numpy, equal to the bit: the order of float32 operations is its.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "checks.h"
#include "detect.h"

namespace cnna {

namespace {

using Floats = std::vector<float>;

// Looks up integers that follow each other, for numbers that lie `step` apart. Eight at a time: a core that works in order would else wait
// for each look-up.
void looked_up(const int8_t *q, const float *values, int64_t count, float *to, int64_t step) {
    constexpr int64_t AT_ONCE = 8;
    int64_t cell = 0;
    for (; cell + AT_ONCE <= count; cell += AT_ONCE, to += AT_ONCE * step) {
        float found[AT_ONCE];
        for (int64_t lane = 0; lane < AT_ONCE; ++lane) found[lane] = values[q[cell + lane]];
        for (int64_t lane = 0; lane < AT_ONCE; ++lane) to[lane * step] = found[lane];
    }
    for (; cell < count; ++cell, to += step) *to = values[q[cell]];
}

// A row of cells of a map, in which all heads of a grid lie alike.
struct Line {
    int64_t first, count;
};

const int8_t *plane(const cnna_heads &heads, const cnna_head *tensors, int64_t head, int64_t channel, const Line &line) {
    return tensors[head].data + channel * heads.cells[head] + line.first;
}

// The mean numbers of a bin, added bin by bin.
void means(const cnna_heads &heads, const cnna_head *tensors, const cnna_number &one, const Line &line, Floats &found) {
    const float *weights = table(heads, one.table) - HALF;
    const auto count = static_cast<size_t>(line.count);
    const auto bin = [&](int64_t number) { return plane(heads, tensors, one.head, one.channel + number, line); };
    std::vector<int8_t> most(bin(0), bin(0) + line.count);
    for (int64_t number = 1; number < one.bins; ++number) {
        const int8_t *q = bin(number);
        for (size_t cell = 0; cell < count; ++cell) most[cell] = std::max(most[cell], q[cell]);
    }
    Floats whole(count), moment(count, 0.0f);
    for (int64_t number = 0; number < one.bins; ++number) {
        const int8_t *q = bin(number);
        for (size_t cell = 0; cell < count; ++cell) {
            const float weight = weights[most[cell] - q[cell]];
            whole[cell] = number ? whole[cell] + weight : weight;
            moment[cell] = number ? moment[cell] + static_cast<float>(number) * weight : 0.0f;
        }
    }
    for (size_t cell = 0; cell < count; ++cell) found[cell] = moment[cell] / whole[cell];
}

// A number of the boxes in a line of cells.
void numbers(const cnna_heads &heads, const cnna_head *tensors, const cnna_number &one, int64_t row, const Line &line, Floats &found) {
    if (one.bins > 1) {
        means(heads, tensors, one, line, found);
    } else {
        looked_up(plane(heads, tensors, one.head, one.channel, line), table(heads, one.table), line.count, found.data(), 1);
    }
    const float down = one.base + one.down * static_cast<float>(row);
    for (int64_t cell = 0; cell < line.count; ++cell) {
        float &value = found[static_cast<size_t>(cell)];
        value = down + one.across * static_cast<float>(cell) + one.factor * value;
    }
}

// Corners as middles and sizes.
void centred(Floats (&box)[4]) {
    for (size_t axis = 0; axis < 2; ++axis)
        for (size_t cell = 0; cell < box[axis].size(); ++cell) {
            const float low = box[axis][cell], high = box[axis + 2][cell];
            box[axis][cell] = (low + high) * 0.5f, box[axis + 2][cell] = high - low;
        }
}

void grid_of(const cnna_heads &heads, const cnna_head *tensors, const cnna_grid &grid, const cnna_rows &rows) {
    Floats box[4];
    for (Floats &side : box) side.resize(static_cast<size_t>(grid.columns));
    const bool there = grid.objectness[0] >= 0;
    for (int64_t row = 0; row < grid.rows; ++row) {
        const Line line{row * grid.columns, grid.columns};
        const int64_t first = grid.first + grid.down * row;
        for (int side = 0; side < 4; ++side) numbers(heads, tensors, grid.box[side], row, line, box[side]);
        if (rows.centred) centred(box);
        for (int side = 0; side < 4; ++side)
            for (int64_t cell = 0; cell < line.count; ++cell)
                rows.box[(first + grid.across * cell) * rows.box_row + rows.order[side] * rows.box_number] = box[side][static_cast<size_t>(cell)] / rows.scale[side];
        for (int64_t number = 0; number < heads.labels + there; ++number) {
            const int64_t *field = there && number == 0 ? grid.objectness : grid.classes;
            const int8_t *q = plane(heads, tensors, field[0], field == grid.objectness ? field[1] : field[1] + number - there, line);
            float *to = rows.score + first * rows.score_row + number * rows.score_number;
            looked_up(q, table(heads, field[2]), line.count, to, grid.across * rows.score_row);
        }
    }
}

// Whether numbers of so many rows lie within an array.
bool within_array(int64_t boxes, int64_t row, int64_t number, int64_t numbers, int64_t elements) {
    return within(row, 1, MOST_SIZE) && within(number, 1, MOST_SIZE) && within(elements, 1) && (boxes - 1) * row + (numbers - 1) * number < elements;
}

bool holds(const cnna_rows &rows, const cnna_heads &heads) {
    if (heads.scores != CNNA_TABLES || !rows.box || !rows.score || !within(rows.boxes, 1, MOST_SIZE)) return false;
    bool whole = within_array(rows.boxes, rows.box_row, rows.box_number, 4, rows.box_elements);
    for (int side = 0; side < 4; ++side) whole = whole && within(rows.order[side], 0, 3);
    for (int64_t number = 0; number < heads.grids; ++number) {
        const cnna_grid &grid = heads.grid[number];
        whole = whole && within(grid.first + grid.down * (grid.rows - 1) + grid.across * (grid.columns - 1), 0, rows.boxes - 1) &&
                within_array(rows.boxes, rows.score_row, rows.score_number, heads.labels + (grid.objectness[0] >= 0), rows.score_elements);
    }
    return whole;
}

}  // namespace

}  // namespace cnna

int cnna_model_rows(const cnna_heads *heads, const cnna_head *tensors, const cnna_rows *rows) {
    return cnna::guarded([&] {
        constexpr cnna_wanted any{0.0f, 0.0f, 0, 1, 1};
        if (!heads || !tensors || !rows || !cnna::sound(*heads, any) || !cnna::sound(*heads, tensors) || !cnna::holds(*rows, *heads))
            return int{CNNA_ARGUMENT};
        for (int64_t number = 0; number < heads->heads; ++number)
            if (tensors[number].word != 1 || tensors[number].block != heads->cells[number]) return int{CNNA_ARGUMENT};
        for (int64_t number = 0; number < heads->grids; ++number) cnna::grid_of(*heads, tensors, heads->grid[number], *rows);
        return int{CNNA_OK};
    });
}
