// Scales pictures by two passes, along rows and then along columns, each with the weights of a filter for every place.
//
// Weights are whole numbers that add up to 2^14, so a plain colour stays what it is. Between the passes a value has 6 bits more than
// a byte. `cnna.spec.samples.resampling` makes the same weights and the same picture in numpy, equal to the bit.
//
// The first pass lays eight rows side by side, so that a vector has one place of all of them, whatever the weights, the channels and the
// distances between pixels are. Each row of the picture goes through it once: its line is kept until no row of the answer needs it.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "checks.h"
#include "cnna_host.h"
#include "resize_filter.h"
#include "vectors.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace cnna {

namespace {

constexpr int EXTRA_BITS = 6;
constexpr int64_t MOST_PIXELS = 1 << 15;  // along an axis

// Eight sums.
struct Sums {
#if defined(__aarch64__)
    int32x4_t low, high;

    Sums() = default;
    explicit Sums(int32_t first) : low(vdupq_n_s32(first)), high(low) {}
    void add(Shorts8 values, int16_t weight) {
        const auto x = reinterpret_cast<int16x8_t>(values);
        low = vmlal_n_s16(low, vget_low_s16(x), weight), high = vmlal_high_n_s16(high, x, weight);
    }
    template <int SHIFT>  // at most 16
    Shorts8 shifted() const {
        return reinterpret_cast<Shorts8>(vshrn_high_n_s32(vshrn_n_s32(low, SHIFT), high, SHIFT));
    }
#elif defined(__SSE2__)
    __m128i low, high;

    Sums() = default;
    explicit Sums(int32_t first) : low(_mm_set1_epi32(first)), high(low) {}
    void add(Shorts8 values, int16_t weight) {
        const auto x = reinterpret_cast<__m128i>(values), w = _mm_set1_epi16(weight);
        const __m128i lower = _mm_mullo_epi16(x, w), upper = _mm_mulhi_epi16(x, w);
        low = _mm_add_epi32(low, _mm_unpacklo_epi16(lower, upper)), high = _mm_add_epi32(high, _mm_unpackhi_epi16(lower, upper));
    }
    template <int SHIFT>
    Shorts8 shifted() const {
        return reinterpret_cast<Shorts8>(_mm_packs_epi32(_mm_srai_epi32(low, SHIFT), _mm_srai_epi32(high, SHIFT)));
    }
#else
    using Whole8 = int32_t __attribute__((vector_size(2 * LANES)));
    Whole8 all;

    Sums() = default;
    explicit Sums(int32_t first) : all(Whole8{} + first) {}
    void add(Shorts8 values, int16_t weight) { all += __builtin_convertvector(values, Whole8) * weight; }
    template <int SHIFT>
    Shorts8 shifted() const {
        return __builtin_convertvector(all >> SHIFT, Shorts8);
    }
#endif
};

Shorts8 shorts8(const int16_t *from) {
    Shorts8 made;
    std::memcpy(&made, from, sizeof made);
    return made;
}

// Sixteen bytes of as many numbers, which are bytes.
Bytes16 bytes16(Shorts8 first, Shorts8 second) { return evens16(reinterpret_cast<Bytes16>(first), reinterpret_cast<Bytes16>(second)); }

void store8(int16_t *to, Shorts8 values) { store16(to, reinterpret_cast<Bytes16>(values)); }

// ROWS rows side by side: values of one place lie together, so that a vector has them all.
constexpr size_t ROWS = 8;

// Bytes [begin, end) of rows, each of `bytes`, side by side. LANES - 1 places behind them are written too.
void lay_beside(const uint8_t *const (&rows)[ROWS], size_t begin, size_t end, size_t bytes, int16_t *to) {
    for (size_t at = begin; at < end; at += LANES, to += LANES * ROWS) {
        Bytes16 own[ROWS] = {}, other[ROWS];
        for (size_t row = 0; row < ROWS; ++row) {
            if (at + LANES <= bytes)
                own[row] = load16(rows[row] + at);
            else
                std::memcpy(&own[row], rows[row] + at, bytes - at);
        }
        const auto round = [](const Bytes16(&from)[ROWS], Bytes16(&made)[ROWS]) {
#pragma GCC unroll 4
            for (size_t i = 0; i < ROWS / 2; ++i) {
                made[2 * i] = in_turn16<false>(from[i], from[i + ROWS / 2]);
                made[2 * i + 1] = in_turn16<true>(from[i], from[i + ROWS / 2]);
            }
        };
        round(own, other), round(other, own), round(own, other);
#pragma GCC unroll 8
        for (size_t pair = 0; pair < ROWS; ++pair) {
#if defined(__aarch64__)
            const auto both = reinterpret_cast<uint8x16_t>(other[pair]);
            store8(to + 2 * pair * ROWS, reinterpret_cast<Shorts8>(vmovl_u8(vget_low_u8(both))));
            store8(to + (2 * pair + 1) * ROWS, reinterpret_cast<Shorts8>(vmovl_high_u8(both)));
#else
            const Bytes16 none{};
            store8(to + 2 * pair * ROWS, reinterpret_cast<Shorts8>(in_turn16<false>(other[pair], none)));
            store8(to + (2 * pair + 1) * ROWS, reinterpret_cast<Shorts8>(in_turn16<true>(other[pair], none)));
#endif
        }
    }
}

// Rows side by side, each of them to a line of its own. ROWS - 1 values behind them are written too.
void lay_apart(const int16_t *from, size_t count, int16_t *const (&lines)[ROWS], size_t first) {
    for (size_t at = 0; at < count; at += ROWS, from += ROWS * ROWS) {
        Shorts8 own[ROWS], other[ROWS];
#pragma GCC unroll 8
        for (size_t i = 0; i < ROWS; ++i) own[i] = shorts8(from + i * ROWS);
        const auto round = [](const Shorts8(&rows)[ROWS], Shorts8(&made)[ROWS]) {
#pragma GCC unroll 4
            for (size_t i = 0; i < ROWS / 2; ++i) {
                made[2 * i] = in_turn8<false>(rows[i], rows[i + ROWS / 2]);
                made[2 * i + 1] = in_turn8<true>(rows[i], rows[i + ROWS / 2]);
            }
        };
        round(own, other), round(other, own), round(own, other);
        for (size_t row = 0; row < ROWS; ++row) store8(lines[row] + first + at, other[row]);
    }
}

// Pixels [begin, end) of the answer from pixels of the picture, rows side by side. COUNT: channels at once. TAPS: of the filter; 0: any.
template <size_t COUNT, size_t TAPS>
void along_rows(const int16_t *pixels, size_t channels, const Filter &filter, size_t begin, size_t end, int16_t *to) {
    constexpr int shift = WEIGHT_BITS - EXTRA_BITS;
    const size_t taps = TAPS ? TAPS : filter.taps;
    const int16_t *weights = filter.weights.data() + begin * taps;
    for (size_t at = begin; at < end; ++at, weights += taps) {
        const int16_t *first = pixels + static_cast<size_t>(filter.first[at] - filter.first[begin]) * channels * ROWS;
        for (size_t channel = 0; channel < channels; channel += COUNT, first += COUNT * ROWS, to += COUNT * ROWS) {
            Sums sums[COUNT];
            for (Sums &sum : sums) sum = Sums(1 << (shift - 1));
            const int16_t *from = first;
            for (size_t tap = 0; tap < taps; ++tap, from += channels * ROWS)
                for (size_t i = 0; i < COUNT; ++i) sums[i].add(shorts8(from + i * ROWS), weights[tap]);
            for (size_t i = 0; i < COUNT; ++i) store8(to + i * ROWS, sums[i].template shifted<shift>());
        }
    }
}

using AlongRows = void (*)(const int16_t *, size_t, const Filter &, size_t, size_t, int16_t *);

template <size_t COUNT>
AlongRows along_rows_of(size_t taps) {
    constexpr AlongRows known[] = {along_rows<COUNT, 2>, along_rows<COUNT, 3>, along_rows<COUNT, 4>};
    return taps >= 2 && taps <= 4 ? known[taps - 2] : along_rows<COUNT, 0>;
}

AlongRows along_rows_of(size_t channels, size_t taps) {
    return channels % 3 == 0 ? along_rows_of<3>(taps) : channels % 4 == 0 ? along_rows_of<4>(taps) : along_rows_of<1>(taps);
}

// The first pass: ROWS rows of the picture to a line each, in stretches that the first cache holds.
class FirstPass {
  public:
    FirstPass(const Filter &filter, size_t channels, size_t columns)
        : filter_(filter), channels_(channels), bytes_(columns * channels), along_(along_rows_of(channels, filter.taps)) {
        const size_t wanted = filter.first.size();
        size_t most = 0, longest = 0;
        for (size_t at = 0, end = 0; at < wanted; at = end) {
            for (end = at + 1; end < wanted && span(at, end + 1) * channels <= MOST_PLACES && (end + 1 - at) * channels <= MOST_PLACES;) ++end;
            ends_.push_back(end);
            most = std::max(most, span(at, end) * channels), longest = std::max(longest, (end - at) * channels);
        }
        pixels_.resize((most + LANES) * ROWS), made_.resize((longest + ROWS) * ROWS);
    }

    void operator()(const uint8_t *const (&rows)[ROWS], int16_t *const (&lines)[ROWS]) {
        size_t begin = 0;
        for (const size_t end : ends_) {
            const size_t first = static_cast<size_t>(filter_.first[begin]) * channels_;
            lay_beside(rows, first, first + span(begin, end) * channels_, bytes_, pixels_.data());
            along_(pixels_.data(), channels_, filter_, begin, end, made_.data());
            lay_apart(made_.data(), (end - begin) * channels_, lines, begin * channels_);
            begin = end;
        }
    }

  private:
    static constexpr size_t MOST_PLACES = 512;  // of a stretch, before and behind: 16 bytes for each

    // Pixels of the picture for such pixels of the answer.
    size_t span(size_t begin, size_t end) const { return static_cast<size_t>(filter_.first[end - 1] - filter_.first[begin]) + filter_.taps; }

    const Filter &filter_;
    const size_t channels_, bytes_;
    const AlongRows along_;
    std::vector<size_t> ends_;
    std::vector<int16_t> pixels_, made_;
};

// The second pass: a row of the answer from lines of the first, WIDTH places at a time. The lines are of whole parts.
constexpr size_t WIDTH = 4 * ROWS;

template <size_t TAPS>
void along_columns(const std::vector<const int16_t *> &lines, const int16_t *weights, size_t count, uint8_t *to) {
    constexpr int shift = WEIGHT_BITS + EXTRA_BITS;
    const size_t taps = TAPS ? TAPS : lines.size();
    for (size_t at = 0; at < count; at += WIDTH) {
        Sums sums[WIDTH / ROWS];
        for (Sums &sum : sums) sum = Sums(1 << (shift - 1));
        for (size_t tap = 0; tap < taps; ++tap)
            for (size_t i = 0; i < WIDTH / ROWS; ++i) sums[i].add(shorts8(lines[tap] + at + i * ROWS), weights[tap]);
        Bytes16 made[WIDTH / LANES];
        for (size_t i = 0; i < WIDTH / LANES; ++i) made[i] = bytes16(sums[2 * i].shifted<16>() >> (shift - 16), sums[2 * i + 1].shifted<16>() >> (shift - 16));
        if (at + WIDTH <= count)
            std::memcpy(to + at, made, WIDTH);
        else
            std::memcpy(to + at, made, count - at);
    }
}

using AlongColumns = void (*)(const std::vector<const int16_t *> &, const int16_t *, size_t, uint8_t *);

AlongColumns along_columns_of(size_t taps) {
    constexpr AlongColumns known[] = {along_columns<2>, along_columns<3>, along_columns<4>};
    return taps >= 2 && taps <= 4 ? known[taps - 2] : along_columns<0>;
}

int resize(const uint8_t *picture, int64_t rows, int64_t columns, int64_t pitch, size_t channels, const Filter &across,
           const Filter &down, uint8_t *answer, int64_t answer_pitch) {
    const size_t width = across.first.size() * channels, kept = down.taps + ROWS;
    const size_t line_pitch = (width + WIDTH + ROWS - 1) / WIDTH * WIDTH;
    std::vector<int16_t> lines(kept * line_pitch);
    const auto line = [&](int64_t row) { return lines.data() + static_cast<size_t>(row) % kept * line_pitch; };
    FirstPass first_pass(across, channels, static_cast<size_t>(columns));
    const AlongColumns second_pass = along_columns_of(down.taps);
    std::vector<const int16_t *> used(down.taps);
    int64_t next = down.first[0];
    for (size_t at = 0; at < down.first.size(); ++at) {
        const int64_t end = down.first[at] + static_cast<int64_t>(down.taps);
        for (; next < end; next += ROWS) {
            const uint8_t *from[ROWS];
            int16_t *to[ROWS];
            for (int64_t i = 0; i < static_cast<int64_t>(ROWS); ++i) from[i] = picture + std::min(next + i, rows - 1) * pitch, to[i] = line(next + i);
            first_pass(from, to);
        }
        for (size_t tap = 0; tap < down.taps; ++tap) used[tap] = line(down.first[at] + static_cast<int64_t>(tap));
        second_pass(used, down.weights.data() + at * down.taps, width, answer + static_cast<int64_t>(at) * answer_pitch);
    }
    return CNNA_OK;
}

}  // namespace

}  // namespace cnna

int cnna_resize(
    const uint8_t *picture, int64_t rows, int64_t columns, int64_t channels, int64_t pitch, int64_t filter,
    uint8_t *answer, int64_t wanted_rows, int64_t wanted_columns, int64_t answer_pitch) {
    using namespace cnna;
    for (const int64_t size : {rows, columns, wanted_rows, wanted_columns})
        if (!within(size, 1, MOST_PIXELS)) return CNNA_ARGUMENT;
    if (!picture || !answer || !within(channels, 1, 16) || !within(filter, CNNA_BILINEAR, CNNA_AREA)) return CNNA_ARGUMENT;
    if (!within(pitch, -MOST) || !within(answer_pitch, -MOST)) return CNNA_ARGUMENT;
    if (std::abs(pitch) < columns * channels || std::abs(answer_pitch) < wanted_columns * channels) return CNNA_BOUNDS;
    return guarded([=] {
        return resize(picture, rows, columns, pitch, static_cast<size_t>(channels), filter_of(filter, columns, wanted_columns),
                      filter_of(filter, rows, wanted_rows), answer, answer_pitch);
    });
}
