// Tables as arithmetic: see steps.h.
#include "steps.h"

#include <algorithm>
#include <vector>

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace cnna {

namespace {

constexpr int MOST_SHIFT = 3, HALF = 128, LOW = -128, HIGH = 127, HIGH_BITS = 8, NEIGHBOURS = 3;

// (x - 128) * slope, as SQRDMULH of the 16 bits whose high byte is x - 128 has it.
int32_t product(int x, int slope) { return ((x - HALF) * (1 << HIGH_BITS) * slope + (1 << 14)) >> 15; }

// A table's distance from x - 128 where it changes. Between two such places it stays the same, so they bound every line.
struct Ends {
    explicit Ends(const int8_t *table) {
        while (first < last && (table[first] == LOW || table[first] == HIGH)) ++first;
        while (first < last && (table[last] == LOW || table[last] == HIGH)) --last;
        for (const int x : {first - 1, last + 1})
            if (x >= 0 && x < static_cast<int>(TABLE)) places[count++] = static_cast<int16_t>(x);
        for (int x = first; x <= last; ++x) {
            const int d = table[x] - (x - HALF);
            least = std::min(least, d), most = std::max(most, d);
            const bool begins = x == first || d != table[x - 1] - (x - 1 - HALF), ends = x == last || d != table[x + 1] - (x + 1 - HALF);
            if (begins || ends) places[count++] = static_cast<int16_t>(x);
        }
    }
    int first = 0, last = TABLE - 1, least = INT16_MAX, most = INT16_MIN;
    size_t count = 0;
    int16_t places[TABLE + 2];
};

// How a slope does for a table. room: of the biases that give its values; below 0: none does. steeper: which way another slope may.
struct Fit {
    int room;
    bool steeper;
    int16_t bias;
};

Fit fit_of(const int8_t *table, const Ends &ends, int slope, int shift) {
    const int one = 1 << (HIGH_BITS + shift);
    int least = INT16_MIN, most = INT16_MAX, lower = 0, upper = 0;
    for (size_t i = 0; i < ends.count; ++i) {
        const int x = ends.places[i], p = product(x, slope), needed = (table[x] - (x - HALF)) * one - p;
        if (needed > least && table[x] > LOW) least = needed, lower = x;
        if (needed + one - 1 < most && table[x] < HIGH) most = needed + one - 1, upper = x;
    }
    return {most - least, lower > upper, static_cast<int16_t>((least + most) / 2)};
}

// The line of a table, in steps of that size: halves the slopes that are left, and tries the last one's neighbours, since products are rounded.
bool line_of(const int8_t *table, const Ends &ends, int shift, Step *found) {
    const int reach = 1 << (HIGH_BITS - 1 - shift);
    if (ends.least < -reach || ends.most >= reach) return false;  // 16 bits do not hold it
    int low = -INT16_MAX, high = INT16_MAX, slope = 0;
    Fit fit{};
    while (low <= high) {
        slope = (low + high) / 2;
        fit = fit_of(table, ends, slope, shift);
        if (fit.room >= 0) break;
        fit.steeper ? low = slope + 1 : high = slope - 1;
    }
    const int middle = slope;
    for (int off = -NEIGHBOURS; fit.room < 0 && off <= NEIGHBOURS; ++off) {
        slope = std::clamp(middle + off, -INT16_MAX, INT16_MAX);
        fit = fit_of(table, ends, slope, shift);
    }
    *found = Step{static_cast<int16_t>(slope), fit.bias};
    return fit.room >= 0;
}

bool same(const int8_t *table, Step step, int shift) {
    for (size_t x = 0; x < TABLE; ++x)
        if (value_of(static_cast<uint8_t>(x), step, shift) != table[x]) return false;
    return true;
}

}  // namespace

int8_t value_of(uint8_t x, Step step, int shift) {
    const auto sum = static_cast<int16_t>(static_cast<uint16_t>(product(x, step.slope) + step.bias));
    return static_cast<int8_t>(std::clamp(x - HALF + (sum >> (HIGH_BITS + shift)), LOW, HIGH));
}

bool Steps::find(const int8_t *tables, size_t channels) {
    if (channels != 1 && channels != COLOURS) return false;
    std::vector<Ends> ends;
    for (size_t channel = 0; channel < channels; ++channel) ends.emplace_back(tables + channel * TABLE);
    for (shift_ = MOST_SHIFT; shift_ >= 0; --shift_) {
        Step found[COLOURS];
        bool all = true;
        for (size_t channel = 0; channel < channels && all; ++channel) {
            const int8_t *table = tables + channel * TABLE;
            all = line_of(table, ends[channel], shift_, &found[channel]) && same(table, found[channel], shift_);
        }
        for (size_t i = 0; i < PERIOD && all; ++i) slopes_[i] = found[i % channels].slope, biases_[i] = found[i % channels].bias;
        if (all) return true;
    }
    return false;
}

#if defined(__aarch64__)
// Does GROUPS times PERIOD elements side by side: each operation waits for the one before it, six clocks on a core that executes in order.
template <size_t GROUPS>
inline void apply_groups(const uint8_t *from, int8_t *to, const int16x8_t *slope, const int16x8_t *bias, int8x16_t less) {
    constexpr size_t VECTORS = GROUPS * COLOURS, HALVES = 2 * COLOURS;
    const int8x16_t half = vdupq_n_s8(LOW);
    int8x16_t x[VECTORS], high[VECTORS];
    int16x8_t part[2 * VECTORS];
#pragma GCC unroll 16
    for (size_t v = 0; v < VECTORS; ++v) x[v] = veorq_s8(vreinterpretq_s8_u8(vld1q_u8(from + v * LANES)), half);
#pragma GCC unroll 16
    for (size_t v = 0; v < VECTORS; ++v) part[2 * v] = vshll_n_s8(vget_low_s8(x[v]), HIGH_BITS), part[2 * v + 1] = vshll_high_n_s8(x[v], HIGH_BITS);
#pragma GCC unroll 16
    for (size_t h = 0; h < 2 * VECTORS; ++h) part[h] = vqrdmulhq_s16(part[h], slope[h % HALVES]);
#pragma GCC unroll 16
    for (size_t v = 0; v < VECTORS; ++v) {
        const size_t h = 2 * v % HALVES;
        high[v] = vaddhn_high_s16(vaddhn_s16(part[2 * v], bias[h]), part[2 * v + 1], bias[h + 1]);
    }
#pragma GCC unroll 16
    for (size_t v = 0; v < VECTORS; ++v) vst1q_s8(to + v * LANES, vqaddq_s8(x[v], vshlq_s8(high[v], less)));
}
#endif

void Steps::apply(const uint8_t *from, int8_t *to, size_t count) const {
    size_t i = 0;
#if defined(__aarch64__)
    constexpr size_t HALVES = 2 * COLOURS;
    int16x8_t slope[HALVES], bias[HALVES];
#pragma GCC unroll 8
    for (size_t half = 0; half < HALVES; ++half)
        slope[half] = vld1q_s16(slopes_ + half * LANES / 2), bias[half] = vld1q_s16(biases_ + half * LANES / 2);
    const int8x16_t less = vdupq_n_s8(static_cast<int8_t>(-shift_));
    for (; i + 2 * PERIOD <= count; i += 2 * PERIOD) apply_groups<2>(from + i, to + i, slope, bias, less);
    for (; i + PERIOD <= count; i += PERIOD) apply_groups<1>(from + i, to + i, slope, bias, less);
#endif
    for (size_t at = 0; i < count; ++i, at = at + 1 < PERIOD ? at + 1 : 0) to[i] = value_of(from[i], Step{slopes_[at], biases_[at]}, shift_);
}

}  // namespace cnna
