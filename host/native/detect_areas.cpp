// Areas of a map, as of text: cells that pass and touch each other are one. `cnna.spec.detection.areas` has the same in numpy.
//
// An area that counts reaches over more than LEAST_SIDE rows, so it has a cell in one of the rows that lie so far apart. These rows alone are
// read whole. Where a run of cells passes in one of them, its area is followed up and down, and only parts of rows around it are read.
#include <algorithm>
#include <memory>
#include <tuple>

#include "detect.h"
#include "vectors.h"

namespace cnna {

namespace {

constexpr float CELL_SCORE = 0.3f;  // from which on a cell belongs to an area
constexpr double GROWTH = 1.5;      // of an area divided by its edge: how far a box grows on each side, since such maps are shrunk
constexpr int64_t LEAST_SIDE = 3;   // in cells, of the shorter side, from the middle of the first cell to that of the last
constexpr auto PART = static_cast<int64_t>(LANES);  // cells that are read together

struct Run {
    int64_t row, begin, end;

    bool operator<(const Run &other) const { return std::tie(row, begin) < std::tie(other.row, other.begin); }
};

using Signed16 = int8_t __attribute__((vector_size(LANES)));

// The first byte of each of 16 words that lie `word` bytes apart, none shorter than 16.
__attribute__((always_inline)) inline Bytes16 first_bytes(const int8_t *from, int64_t word) {
    Bytes16 words[LANES];
#pragma GCC unroll 16
    for (size_t i = 0; i < LANES; ++i) words[i] = load16(from + static_cast<int64_t>(i) * word);
#pragma GCC unroll 4
    for (size_t left = LANES / 2; left; left /= 2)
#pragma GCC unroll 8
        for (size_t i = 0; i < left; ++i) words[i] = evens16(words[2 * i], words[2 * i + 1]);
    return words[0];
}

// Which of 16 integers are at least `limit`, a bit for each.
uint16_t reached(Bytes16 values, int8_t limit) {
    const auto found = reinterpret_cast<Signed16>(values) >= limit;
    uint64_t halves[2];
    std::memcpy(halves, &found, LANES);
    if (!(halves[0] | halves[1])) return 0;
    constexpr uint64_t ONES = 0x0101010101010101, GATHER = 0x0102040810204080;  // the lowest bit of each byte, to the highest byte
    const uint64_t low = (halves[0] & ONES) * GATHER >> 56, high = (halves[1] & ONES) * GATHER >> 56;
    return static_cast<uint16_t>(high << 8 | low);
}

// The cells of a map that pass, and that no area has taken: a bit for each, and parts of rows that are read when somebody asks for them.
class Cells {
  public:
    Cells(const cnna_grid &grid, const Tensors &tensors, int limit)
        : tensors_(tensors), head_(grid.classes[0]), channel_(grid.classes[1]), rows_(grid.rows), columns_(grid.columns),
          parts_((columns_ + PART - 1) / PART), masks_((parts_ + MASK - 1) / MASK), word_(tensors.head[head_].word),
          whole_words_(word_ % PART == 0 && channel_ % PART == 0), limit_(static_cast<int8_t>(limit)), q_(tensors.channel(head_, channel_)),
          known_(static_cast<size_t>(rows_ * masks_)), bits_(new uint16_t[static_cast<size_t>(rows_ * parts_)]) {}

    int64_t rows() const { return rows_; }
    int64_t columns() const { return columns_; }
    int64_t word() const { return word_; }  // bytes from a cell to the next
    const int8_t *at(int64_t row, int64_t column) const { return q_ + (row * columns_ + column) * word_; }

    // Reads all of a row. Whether there is a cell.
    bool some(int64_t row) {
        tensors_.look(head_, channel_, 1, row * columns_, columns_);
        unsigned found = 0;
        for (int64_t part = 0; part < parts_; ++part) {
            if (note(row, part)) bits_[index(row, part)] = read(row, part);
            found |= bits_[index(row, part)];
        }
        return found;
    }

    // The first cell of a row from `at` on, before `end`; else that.
    int64_t next(int64_t row, int64_t at, int64_t end) {
        for (int64_t part = at / PART; at < end; at = ++part * PART)
            if (const unsigned left = unsigned{bits(row, part)} >> at % PART) return std::min(end, at + __builtin_ctz(left));
        return end;
    }

    // The run around a cell, which is taken.
    Run taken(int64_t row, int64_t at) {
        Run made{row, at, at};
        for (int64_t lane = at % PART, ones = PART; lane + ones >= PART && made.end < columns_; made.end += ones) {
            uint16_t &own = bits(row, made.end / PART);
            lane = made.end % PART, ones = __builtin_ctz(~(unsigned{own} >> lane));
            own = without(own, lane, ones);
        }
        for (int64_t lane = 0, ones = PART; ones > lane && made.begin > 0; made.begin -= ones) {
            uint16_t &own = bits(row, (made.begin - 1) / PART);
            lane = (made.begin - 1) % PART, ones = __builtin_clz(~(unsigned{own} << (31 - lane)));
            own = without(own, lane + 1 - ones, ones);
        }
        return made;
    }

  private:
    static constexpr int64_t MASK = 64;  // parts of which a number notes whether they are known

    static uint16_t without(uint16_t bits, int64_t first, int64_t count) { return static_cast<uint16_t>(bits & ~(((1u << count) - 1) << first)); }

    size_t index(int64_t row, int64_t part) const { return static_cast<size_t>(row * parts_ + part); }

    // Notes that a part is known. Whether it was not.
    bool note(int64_t row, int64_t part) {
        uint64_t &mask = known_[static_cast<size_t>(row * masks_ + part / MASK)];
        const uint64_t own = uint64_t{1} << part % MASK;
        return mask & own ? false : (mask |= own);
    }

    uint16_t &bits(int64_t row, int64_t part) {
        if (note(row, part)) {
            tensors_.look(head_, channel_, 1, row * columns_ + part * PART, std::min(PART, columns_ - part * PART));
            bits_[index(row, part)] = read(row, part);
        }
        return bits_[index(row, part)];
    }

    uint16_t read(int64_t row, int64_t part) const {
        const int64_t first = part * PART, count = std::min(PART, columns_ - first);
        const int8_t *from = at(row, first);
        if (count == PART && word_ == PART && whole_words_) return reached(first_bytes(from, PART), limit_);  // as most are
        if (count == PART && whole_words_) return reached(first_bytes(from, word_), limit_);
        if (count == PART && word_ == 1) return reached(load16(from), limit_);
        unsigned found = 0;
        for (int64_t cell = 0; cell < count; ++cell) found |= static_cast<unsigned>(from[cell * word_] >= limit_) << cell;
        return static_cast<uint16_t>(found);
    }

    const Tensors &tensors_;
    const int64_t head_, channel_, rows_, columns_, parts_, masks_, word_;
    const bool whole_words_;  // of 16 channels, the first of which is this one
    const int8_t limit_;
    const int8_t *const q_;
    std::vector<uint64_t> known_;
    const std::unique_ptr<uint16_t[]> bits_;  // of parts that are known
};

// Takes the area around a cell: its runs, in order.
void take(Cells &cells, int64_t row, int64_t column, std::vector<Run> &area) {
    area.assign(1, cells.taken(row, column));
    for (size_t one = 0; one < area.size(); ++one) {
        const Run run = area[one];
        const int64_t first = std::max<int64_t>(0, run.begin - 1), end = std::min(cells.columns(), run.end + 1);  // corners touch too
        for (const int64_t beside : {run.row - 1, run.row + 1}) {
            if (beside < 0 || beside >= cells.rows()) continue;
            for (int64_t at = cells.next(beside, first, end); at < end; at = cells.next(beside, at, end)) {
                area.push_back(cells.taken(beside, at));
                at = area.back().end;
            }
        }
    }
    std::sort(area.begin(), area.end());
}

// The mean of an area's cells, added one after the other: in this order alone the sum has numpy's bits for any scores.
float mean(const Cells &cells, const std::vector<Run> &area, const float *scores) {
    double sum = 0;
    int64_t count = 0;
    for (const Run &run : area) {
        const int8_t *q = cells.at(run.row, run.begin);
        for (int64_t left = run.end - run.begin; left; --left, q += cells.word()) sum += static_cast<double>(scores[*q]);
        count += run.end - run.begin;
    }
    return static_cast<float>(sum / static_cast<double>(count));
}

}  // namespace

void areas(const cnna_heads &heads, const Tensors &tensors, const cnna_wanted &wanted, int64_t number, Surest &found,
           std::vector<Box> &boxes) {
    const cnna_grid &grid = heads.grid[number];
    const float *scores = table(heads, grid.classes[2]);
    const int limit = least_integer(scores, CELL_SCORE);
    if (limit >= NEVER) return;
    Cells cells(grid, tensors, limit);
    std::vector<Run> area;
    const auto add = [&] {
        int64_t left = grid.columns, right = 0;
        for (const Run &run : area) left = std::min(left, run.begin), right = std::max(right, run.end - 1);
        const int64_t top = area.front().row, wide = right - left, high = area.back().row - top;
        if (std::min(wide, high) < LEAST_SIDE) return;
        const float score = mean(cells, area, scores);
        if (!(score >= wanted.least)) return;
        const double grown = GROWTH * static_cast<double>(wide * high) / static_cast<double>(2 * (wide + high));
        const double down = grid.box[1].down, across = grid.box[0].across;
        const auto pixels = [](int64_t cell, double more, double size) { return static_cast<float>((static_cast<double>(cell) + more) * size); };
        boxes.push_back({pixels(left, -grown, across), pixels(top, -grown, down), pixels(right, grown, across), pixels(top + high, grown, down)});
        const int64_t first = top * grid.columns + area.front().begin;
        found.add({score, static_cast<int32_t>(number), 0, first, static_cast<int64_t>(boxes.size()) - 1});
    };
    for (int64_t row = LEAST_SIDE; row < grid.rows; row += LEAST_SIDE + 1) {
        if (!cells.some(row)) continue;
        for (int64_t at = cells.next(row, 0, grid.columns); at < grid.columns; at = cells.next(row, at, grid.columns)) {
            take(cells, row, at, area);
            add();
        }
    }
}

}  // namespace cnna
