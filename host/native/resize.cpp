// Scales pictures by two passes, along rows and then along columns, each with the weights of a filter for every place.
//
// Weights are whole numbers that add up to 2^14, so a plain colour stays what it is. Between the passes a value has 6 bits more than
// a byte. `cnna.spec.samples.resampling` makes the same weights and the same picture in numpy, equal to the bit.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "checks.h"
#include "cnna_host.h"
#include "vectors.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace cnna {

namespace {

constexpr int WEIGHT_BITS = 14, EXTRA_BITS = 6;
constexpr int64_t MOST_PIXELS = 1 << 15;  // along an axis
constexpr size_t FEW = 4;                 // channels that one vector holds

// For every pixel of the answer: its first pixel of the picture, and the weights from there on. All have `taps` weights.
struct Filter {
    size_t taps = 0;
    std::vector<int64_t> first;
    std::vector<int16_t> weights;
};

double height(int64_t filter, double distance) {
    const double from = std::fabs(distance);
    if (filter == CNNA_AREA) return distance > -0.5 && distance <= 0.5 ? 1.0 : 0.0;
    return from < 1.0 ? 1.0 - from : 0.0;
}

Filter filter_of(int64_t filter, int64_t size, int64_t wanted) {
    const double scale = static_cast<double>(size) / static_cast<double>(wanted), wide = std::max(scale, 1.0);
    const double support = (filter == CNNA_AREA ? 0.5 : 1.0) * wide;
    Filter made;
    made.taps = static_cast<size_t>(std::min<int64_t>(size, static_cast<int64_t>(std::ceil(support)) * 2 + 1));
    made.weights.assign(made.taps * static_cast<size_t>(wanted), 0);
    std::vector<double> heights(made.taps);
    for (int64_t at = 0; at < wanted; ++at) {
        const double center = (static_cast<double>(at) + 0.5) * scale;
        const auto low = std::max<int64_t>(0, static_cast<int64_t>(center - support + 0.5));
        const auto high = std::min<int64_t>(size, static_cast<int64_t>(center + support + 0.5));
        const int64_t first = std::min(low, size - static_cast<int64_t>(made.taps));
        double sum = 0;
        for (size_t tap = 0; tap < made.taps; ++tap) {
            const int64_t pixel = first + static_cast<int64_t>(tap);
            heights[tap] = pixel < low || pixel >= high ? 0 : height(filter, (static_cast<double>(pixel) + 0.5 - center) / wide);
            sum += heights[tap];
        }
        int16_t *weights = made.weights.data() + static_cast<size_t>(at) * made.taps;
        double until = 0;
        int given = 0;  // of the weight that all have together: rounded here, so that no rest is left over for one of them
        for (size_t tap = 0; tap < made.taps; ++tap) {
            until += heights[tap];
            const int rounded = static_cast<int>(std::floor(until / sum * (1 << WEIGHT_BITS) + 0.5));
            weights[tap] = static_cast<int16_t>(rounded - given);
            given = rounded;
        }
        made.first.push_back(first);
    }
    return made;
}

// Four bytes as four numbers.
Whole4 widened(const uint8_t *from) {
#if defined(__aarch64__)
    uint32_t four;
    std::memcpy(&four, from, sizeof four);
    return reinterpret_cast<Whole4>(vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four))))));
#else
    return Whole4{from[0], from[1], from[2], from[3]};
#endif
}

// As `along_row`, for pixels of at most FEW channels: all of a pixel at once. FEW - 1 bytes behind the row are read, and as many
// numbers behind the line are written.
void along_row_at_once(const uint8_t *row, size_t channels, const Filter &filter, int16_t *to) {
    constexpr int shift = WEIGHT_BITS - EXTRA_BITS;
    const int16_t *weights = filter.weights.data();
    for (const int64_t first : filter.first) {
        const uint8_t *from = row + static_cast<size_t>(first) * channels;
        Whole4 sum = Whole4{} + (1 << (shift - 1));
        for (size_t tap = 0; tap < filter.taps; ++tap, from += channels) {
            sum += widened(from) * weights[tap];
        }
        using Line4 = int16_t __attribute__((vector_size(FEW * sizeof(int16_t))));
        const Line4 line = __builtin_convertvector(sum >> shift, Line4);
        std::memcpy(to, &line, sizeof line);
        to += channels, weights += filter.taps;
    }
}

// One row of the picture, scaled along its columns: [wanted][channels] with EXTRA_BITS more bits.
void along_row(const uint8_t *row, size_t channels, const Filter &filter, int16_t *to) {
    constexpr int shift = WEIGHT_BITS - EXTRA_BITS;
    const int16_t *weights = filter.weights.data();
    for (const int64_t first : filter.first) {
        const uint8_t *from = row + static_cast<size_t>(first) * channels;
        for (size_t channel = 0; channel < channels; ++channel) {
            int32_t sum = 1 << (shift - 1);
            for (size_t tap = 0; tap < filter.taps; ++tap) sum += weights[tap] * from[tap * channels + channel];
            *to++ = static_cast<int16_t>(sum >> shift);
        }
        weights += filter.taps;
    }
}

// One row of the answer from the rows of the first pass. sums: room for a row.
void along_columns(const std::vector<const int16_t *> &rows, const int16_t *weights, std::vector<int32_t> &sums, uint8_t *to) {
    constexpr int shift = WEIGHT_BITS + EXTRA_BITS;
    std::fill(sums.begin(), sums.end(), 1 << (shift - 1));
    for (size_t tap = 0; tap < rows.size(); ++tap) {
        const int16_t *from = rows[tap];
        const int32_t weight = weights[tap];
        if (weight)
            for (size_t i = 0; i < sums.size(); ++i) sums[i] += weight * from[i];
    }
    for (size_t i = 0; i < sums.size(); ++i) to[i] = static_cast<uint8_t>(sums[i] >> shift);
}

int resize(const uint8_t *picture, int64_t rows, int64_t columns, int64_t pitch, size_t channels, const Filter &across,
           const Filter &down, uint8_t *answer, int64_t answer_pitch) {
    const size_t width = across.first.size() * channels, kept = down.taps, line_pitch = width + FEW;
    const size_t row_bytes = static_cast<size_t>(columns) * channels;
    const bool few = channels > 1 && channels <= FEW;
    std::vector<int16_t> lines(kept * line_pitch);
    std::vector<uint8_t> copy(row_bytes + FEW);  // of a row, behind which may be read
    std::vector<int64_t> holds(kept, -1);
    std::vector<const int16_t *> used(kept);
    std::vector<int32_t> sums(width);
    for (size_t at = 0; at < down.first.size(); ++at) {
        for (size_t tap = 0; tap < kept; ++tap) {
            const int64_t row = down.first[at] + static_cast<int64_t>(tap);
            const size_t place = static_cast<size_t>(row) % kept;
            int16_t *line = lines.data() + place * line_pitch;
            if (holds[place] != row && row < rows) {
                if (few) std::memcpy(copy.data(), picture + row * pitch, row_bytes);
                few ? along_row_at_once(copy.data(), channels, across, line) : along_row(picture + row * pitch, channels, across, line);
                holds[place] = row;
            }
            used[tap] = line;
        }
        along_columns(used, down.weights.data() + at * kept, sums, answer + static_cast<int64_t>(at) * answer_pitch);
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
