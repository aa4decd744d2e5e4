// Finds the boxes whose score counts, by integers: a scan of int8 head tensors before any of them becomes float.
//
// `cnna.spec.detection.decode` has the same in numpy, equal to the bit: the order of operations on floats is its.
#include <cstring>
#include <vector>

#include "detect.h"
#include "vectors.h"

namespace cnna {

namespace {

constexpr size_t TILE_PARTS = 4;
constexpr int64_t TILE = TILE_PARTS * LANES;  // cells whose greatest class is looked for together
constexpr double LOST = 1e-6;                 // by which rounding may raise a softmax

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

// The least distance of a class's integer from the background's with which its softmax may count, whatever the others are.
int least_distance(const float *weights, float least) {
    const double wanted = static_cast<double>(least) - LOST;
    int distance = static_cast<int>(VALUES);
    while (distance > 1 - static_cast<int>(VALUES)) {
        const int next = distance - 1;
        const double weight = weights[next < 0 ? -next : next];
        if (!((next < 0 ? weight : 1.0) / (1.0 + weight) >= wanted)) break;
        distance = next;
    }
    return distance;
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

// Whether one of 16 integers is at least `distance` more than another.
bool some_above(Signed16 values, Signed16 others, int distance) {
    using Wide16 = int16_t __attribute__((vector_size(2 * LANES)));
    const Wide16 reached = __builtin_convertvector(values, Wide16) - __builtin_convertvector(others, Wide16) >= static_cast<int16_t>(distance);
    int64_t quarters[4];
    std::memcpy(quarters, &reached, 2 * LANES);
    return quarters[0] | quarters[1] | quarters[2] | quarters[3];
}

// The greatest integer of each of 64 cells: planes lie `pitch` bytes apart.
void greatest64(const int8_t *classes, int64_t labels, int64_t pitch, Signed16 (&most)[TILE_PARTS]) {
    for (size_t part = 0; part < TILE_PARTS; ++part) most[part] = signed16(classes + part * LANES);
    for (int64_t label = 1; label < labels; ++label) {
        classes += pitch;
        for (size_t part = 0; part < TILE_PARTS; ++part) {
            const Signed16 own = signed16(classes + part * LANES);
            most[part] = own > most[part] ? own : most[part];
        }
    }
}

// Sixteen channels of a word, of which those count whose lane is all ones. at: in the first cell.
struct Part {
    const int8_t *at;
    Signed16 counts;

    Signed16 own(Signed16 values) const { return (values & counts) | (~counts & (Signed16{} - static_cast<int8_t>(HALF))); }
    Signed16 greatest(int64_t word, int64_t cell) const { return own(signed16(at + cell * word)); }

    // Of 16 cells, in each lane the greatest.
    Signed16 greatest16(int64_t word, int64_t cell) const {
        const int8_t *from = at + cell * word;
        Signed16 most = signed16(from);
#pragma GCC unroll 16
        for (size_t next = 1; next < LANES; ++next) {
            const Signed16 other = signed16(from += word);
            most = other > most ? other : most;
        }
        return own(most);
    }
};

// The parts of words that hold so many channels. Words are of whole parts.
std::vector<Part> parts_of(const Tensors &tensors, const Scanned &what) {
    constexpr auto EACH = static_cast<int64_t>(LANES);
    std::vector<Part> made;
    const int64_t end = what.channel + what.count;
    for (int64_t first = what.channel / EACH * EACH; first < end; first += EACH) {
        Part part{tensors.channel(what.head, first), {}};
        for (int64_t lane = 0; lane < EACH; ++lane)
            part.counts[static_cast<size_t>(lane)] = what.channel <= first + lane && first + lane < end ? -1 : 0;
        made.push_back(part);
    }
    return made;
}

// One grid, as a scan sees it.
struct Scan {
    const cnna_grid &grid;
    int32_t number;
    int64_t cells, labels;
    const Tensors &tensors;
    const int8_t *classes, *there;         // in the first cell; there: null without objectness
    int64_t word, there_word;              // bytes from a cell to the next
    std::vector<const int8_t *> channels;  // of each class, in the first cell
    Scanned what;
    const float *scores, *sure;
    bool best, peaks;  // peaks: a score counts only where none of the eight cells around has a greater one
    Surest &found;

    int64_t row(int64_t cell) const { return grid.first + grid.down * (cell / grid.columns) + grid.across * (cell % grid.columns); }

    int8_t at(int64_t label, int64_t cell) const { return channels[static_cast<size_t>(label)][cell * word]; }

    float score(int64_t label, int64_t cell) const {
        const float one = scores[at(label, cell)];
        return there ? one * sure[there[cell * there_word]] : one;
    }

    void add(float one, int64_t label, int64_t cell) { found.add({one, number, label, row(cell), cell}); }

    bool peak(int64_t label, int64_t cell) const {
        const int64_t y = cell / grid.columns, x = cell % grid.columns;
        const int8_t *q = classes + label * cells;
        for (int64_t v = std::max<int64_t>(0, y - 1); v <= std::min(grid.rows - 1, y + 1); ++v)
            for (int64_t u = std::max<int64_t>(0, x - 1); u <= std::min(grid.columns - 1, x + 1); ++u)
                if (scores[q[v * grid.columns + u]] > scores[q[cell]]) return false;
        return true;
    }

    // A cell in which some class may be a peak that counts.
    void hit_peaks(int64_t cell, int limit) {
        int64_t surest = -1;
        for (int64_t label = 0; label < labels; ++label) {
            if (classes[label * cells + cell] < limit || !peak(label, cell)) continue;
            if (!best)
                add(score(label, cell), label, cell);
            else if (surest < 0 || score(label, cell) > score(surest, cell))
                surest = label;
        }
        if (surest >= 0) add(score(surest, cell), surest, cell);
    }

    // A cell in which some class may reach the limit.
    void hit(int64_t cell, int limit) {
        if (peaks) return hit_peaks(cell, limit);
        if (best) {
            int8_t most = at(0, cell);
            for (int64_t label = 1; label < labels; ++label) most = std::max(most, at(label, cell));
            if (most < limit) return;
            int64_t label = 0;
            for (int64_t other = 1; other < labels; ++other)
                if (score(other, cell) > score(label, cell)) label = other;
            add(score(label, cell), label, cell);
            return;
        }
        for (int64_t label = 0; label < labels; ++label)
            if (at(label, cell) >= limit) add(score(label, cell), label, cell);
    }

    // Whether an objectness of 16 cells is at least `limit`. parts: of words; none where they are too short.
    bool some_there(const std::vector<Part> &parts, int64_t cell, int8_t limit) const {
        if (there_word == 1) return some_of(signed16(there + cell), limit);
        if (!parts.empty()) return some_of(parts.front().greatest16(there_word, cell), limit);
        const int8_t *from = there + cell * there_word;
        int8_t most = *from;
        for (size_t next = 1; next < LANES; ++next) most = std::max(most, *(from += there_word));
        return most >= limit;
    }

    void by_objectness(float least) {
        const auto limits = least_integers(scores, sure, least);
        const auto first = std::find_if(limits.begin(), limits.end(), [](int16_t limit) { return limit < NEVER; });
        if (first == limits.end()) return;
        const auto lowest = static_cast<int8_t>(first - limits.begin() - HALF);
        const auto parts = parts_in(there_word);
        for (int64_t cell = 0; cell < cells;) {
            const bool whole = cell + static_cast<int64_t>(LANES) <= cells;
            const int64_t end = whole ? cell + static_cast<int64_t>(LANES) : cells;
            if (whole && !some_there(parts, cell, lowest)) {
                cell = end;
                continue;
            }
            for (; cell < end; ++cell)
                if (const int8_t one = there[cell * there_word]; one >= lowest) {
                    tensors.look(grid.classes[0], grid.classes[1], labels, cell);
                    hit(cell, limits[static_cast<size_t>(one + HALF)]);
                }
        }
    }

    // Of what is read of every cell, where words are of whole parts.
    std::vector<Part> parts_in(int64_t bytes) const {
        return bytes % static_cast<int64_t>(LANES) ? std::vector<Part>{} : parts_of(tensors, what);
    }

    void by_class(float least) {
        const int limit = least_integer(scores, least);
        if (limit >= NEVER) return;
        if (word == 1) return by_plane(limit);
        const auto parts = parts_in(word);
        int64_t cell = 0;
        for (; !parts.empty() && cell + static_cast<int64_t>(LANES) <= cells; cell += LANES) by_word(parts, cell, limit);
        while (cell < cells) hit(cell++, limit);
    }

    // 16 cells, together first.
    void by_word(const std::vector<Part> &parts, int64_t first, int limit) {
        const auto passes = static_cast<int8_t>(limit);
        bool some = false;
        for (const Part &part : parts) some = some || some_of(part.greatest16(word, first), passes);
        for (int64_t cell = first; some && cell < first + static_cast<int64_t>(LANES); ++cell) {
            const auto counts = [&](const Part &part) { return some_of(part.greatest(word, cell), passes); };
            if (std::any_of(parts.begin(), parts.end(), counts)) hit(cell, limit);
        }
    }

    // The greatest integer of each cell of a tile comes first, in a loop without branches.
    void by_plane(int limit) {
        const int64_t pitch = tensors.head[grid.classes[0]].block;
        int64_t cell = 0;
        Signed16 most[TILE_PARTS];
        for (; cell + TILE <= cells; cell += TILE) {
            greatest64(classes + cell, labels, pitch, most);
            for (size_t part = 0; part < TILE_PARTS; ++part) {
                if (!some_of(most[part], static_cast<int8_t>(limit))) continue;
                for (size_t lane = 0; lane < LANES; ++lane)
                    if (most[part][lane] >= limit) hit(cell + static_cast<int64_t>(part * LANES + lane), limit);
            }
        }
        for (; cell < cells; ++cell) hit(cell, limit);
    }

    // A cell some of whose classes are so much above the background, which is the first, that their softmax may reach `least`.
    void hit_softmax(int64_t cell, float least) {
        int most = classes[cell];
        for (int64_t label = 1; label <= labels; ++label) most = std::max(most, static_cast<int>(classes[label * cells + cell]));
        double whole = scores[most - classes[cell]];
        for (int64_t label = 1; label <= labels; ++label) whole += static_cast<double>(scores[most - classes[label * cells + cell]]);
        int64_t surest = 0;
        float most_sure = -1.0f;
        for (int64_t label = 0; label < labels; ++label) {
            const auto one = static_cast<float>(static_cast<double>(scores[most - classes[(label + 1) * cells + cell]]) / whole);
            if (best && one > most_sure) surest = label, most_sure = one;
            if (!best && one >= least) add(one, label, cell);
        }
        if (best && most_sure >= least) add(most_sure, surest, cell);
    }

    // By integers first: of the background, and of the greatest class.
    void by_softmax(float least) {
        const int distance = least_distance(scores, least);
        if (distance >= VALUES) return;
        int64_t cell = 0;
        Signed16 most[TILE_PARTS];
        for (; cell + TILE <= cells; cell += TILE) {
            greatest64(classes + cells + cell, labels, cells, most);
            for (size_t part = 0; part < TILE_PARTS; ++part) {
                const int8_t *others = classes + cell + part * LANES;
                if (!some_above(most[part], signed16(others), distance)) continue;
                for (size_t lane = 0; lane < LANES; ++lane)
                    if (most[part][lane] - others[lane] >= distance) hit_softmax(cell + static_cast<int64_t>(part * LANES + lane), least);
            }
        }
        for (; cell < cells; ++cell) hit_softmax(cell, least);
    }
};

}  // namespace

void scan(const cnna_heads &heads, const Tensors &tensors, const cnna_wanted &wanted, int64_t number, Surest &found) {
    const cnna_grid &grid = heads.grid[number];
    const bool objectness = grid.objectness[0] >= 0, softmax = heads.scores == CNNA_SOFTMAX;
    Scan one{grid,
             static_cast<int32_t>(number),
             grid.rows * grid.columns,
             heads.labels,
             tensors,
             tensors.channel(grid.classes[0], grid.classes[1]),
             objectness ? tensors.channel(grid.objectness[0], grid.objectness[1]) : nullptr,
             tensors.head[grid.classes[0]].word,
             objectness ? tensors.head[grid.objectness[0]].word : 1,
             {},
             scanned(heads, grid),
             softmax ? table(heads, grid.classes[2]) - HALF : table(heads, grid.classes[2]),
             objectness ? table(heads, grid.objectness[2]) : nullptr,
             wanted.best != 0,
             heads.scores == CNNA_PEAKS,
             found};
    one.channels.reserve(static_cast<size_t>(heads.labels));
    tensors.each(grid.classes[0], grid.classes[1], heads.labels, [&](const int8_t *channel) { one.channels.push_back(channel); });
    if (softmax)
        one.by_softmax(wanted.least);
    else if (objectness)
        one.by_objectness(wanted.least);
    else
        one.by_class(wanted.least);
}

}  // namespace cnna
