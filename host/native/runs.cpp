// Runs of elements: see runs.h.
#include "runs.h"

#include "vectors.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace cnna {

namespace {

constexpr float FAR = 1e6f;             // steps that are saturated for every zero point, and that 1.5 * 2^23 still rounds
constexpr float ROUNDER = 12582912.0f;  // 1.5 * 2^23: after its addition a float has no bits below 1, rounded half to even

int8_t saturated(int value) { return static_cast<int8_t>(value < -128 ? -128 : value > 127 ? 127 : value); }

#if defined(__aarch64__)
// What a table of 256 bytes has for 16 indices. It comes as four of 64, since an index beyond such a one leaves the lane as it is, and
// indices wrap below zero. A structure around the four would be kept in memory.
inline uint8x16_t looked_up(uint8x16_t index, uint8x16x4_t first, uint8x16x4_t second, uint8x16x4_t third, uint8x16x4_t fourth) {
    const uint8x16_t quarter = vdupq_n_u8(64), less = vsubq_u8(index, quarter), lesser = vsubq_u8(less, quarter);
    uint8x16_t found = vqtbl4q_u8(first, index);
    found = vqtbx4q_u8(found, second, less);
    found = vqtbx4q_u8(found, third, lesser);
    return vqtbx4q_u8(found, fourth, vsubq_u8(lesser, quarter));
}

// Two of them side by side: each table waits for the one before it, several clocks on a core that executes in order.
inline void look_up_two(uint8x16_t &a, uint8x16_t &b, uint8x16x4_t first, uint8x16x4_t second, uint8x16x4_t third, uint8x16x4_t fourth) {
    const uint8x16_t quarter = vdupq_n_u8(64), half = vdupq_n_u8(128), most = vdupq_n_u8(192);
    uint8x16_t found = vqtbl4q_u8(first, a), other = vqtbl4q_u8(first, b);
    found = vqtbx4q_u8(found, second, vsubq_u8(a, quarter)), other = vqtbx4q_u8(other, second, vsubq_u8(b, quarter));
    found = vqtbx4q_u8(found, third, vsubq_u8(a, half)), other = vqtbx4q_u8(other, third, vsubq_u8(b, half));
    a = vqtbx4q_u8(found, fourth, vsubq_u8(a, most)), b = vqtbx4q_u8(other, fourth, vsubq_u8(b, most));
}

// Looks up one colour of pixels [count][COLOURS], in whole vectors; the others are copied. Returns how many pixels it did.
template <size_t COLOUR>
size_t look_up_colour(const uint8_t *from, const int8_t *table, uint8_t *to, size_t count) {
    const auto *bytes = reinterpret_cast<const uint8_t *>(table);
    const uint8x16x4_t first = vld1q_u8_x4(bytes), second = vld1q_u8_x4(bytes + 64);
    const uint8x16x4_t third = vld1q_u8_x4(bytes + 128), fourth = vld1q_u8_x4(bytes + 192);
    size_t i = 0;
    for (; i + 2 * LANES <= count; i += 2 * LANES) {
        uint8x16x3_t left = vld3q_u8(from + i * COLOURS), right = vld3q_u8(from + (i + LANES) * COLOURS);
        look_up_two(left.val[COLOUR], right.val[COLOUR], first, second, third, fourth);
        vst3q_u8(to + i * COLOURS, left);
        vst3q_u8(to + (i + LANES) * COLOURS, right);
    }
    for (; i + LANES <= count; i += LANES) {
        uint8x16x3_t pixel = vld3q_u8(from + i * COLOURS);
        pixel.val[COLOUR] = looked_up(pixel.val[COLOUR], first, second, third, fourth);
        vst3q_u8(to + i * COLOURS, pixel);
    }
    return i;
}
#endif

}  // namespace

void look_up(const uint8_t *from, const int8_t *table, int8_t *to, size_t count) {
    size_t i = 0;
#if defined(__aarch64__)
    const auto *bytes = reinterpret_cast<const uint8_t *>(table);
    const uint8x16x4_t first = vld1q_u8_x4(bytes), second = vld1q_u8_x4(bytes + 64);
    const uint8x16x4_t third = vld1q_u8_x4(bytes + 128), fourth = vld1q_u8_x4(bytes + 192);
    for (; i + 2 * LANES <= count; i += 2 * LANES) {
        uint8x16_t left = vld1q_u8(from + i), right = vld1q_u8(from + i + LANES);
        look_up_two(left, right, first, second, third, fourth);
        vst1q_u8(reinterpret_cast<uint8_t *>(to) + i, left);
        vst1q_u8(reinterpret_cast<uint8_t *>(to) + i + LANES, right);
    }
    for (; i + LANES <= count; i += LANES)
        vst1q_u8(reinterpret_cast<uint8_t *>(to) + i, looked_up(vld1q_u8(from + i), first, second, third, fourth));
#endif
    for (; i < count; ++i) to[i] = table[from[i]];
}

void look_up_colours(const uint8_t *from, const int8_t *tables, int8_t *to, size_t count) {
    size_t i = 0;
#if defined(__aarch64__)
    auto *answer = reinterpret_cast<uint8_t *>(to);  // three tables do not fit into the registers together
    look_up_colour<0>(from, tables, answer, count);
    look_up_colour<1>(answer, tables + TABLE, answer, count);
    i = look_up_colour<2>(answer, tables + 2 * TABLE, answer, count);
#endif
    for (i *= COLOURS; i < count * COLOURS; ++i) to[i] = tables[i % COLOURS * TABLE + from[i]];
}

bool quantise(const float *from, float scale, int zero, int8_t *to, size_t count) {
    int unknown = 0;
    for (size_t i = 0; i < count; ++i) {
        float steps = from[i] / scale;
        unknown |= steps != steps;
        steps = steps > -FAR ? steps : -FAR;  // NaN too
        steps = steps < FAR ? steps : FAR;
        to[i] = saturated(static_cast<int>((steps + ROUNDER) - ROUNDER) + zero);
    }
    return unknown != 0;
}

void dequantise(const int8_t *from, float scale, int zero, float *to, size_t count) {
    const float shift = static_cast<float>(zero);
    for (size_t i = 0; i < count; ++i) to[i] = (static_cast<float>(from[i]) - shift) * scale;
}

void interleave(const int8_t *planes, size_t pitch, size_t channels, int8_t *pixels, size_t count) {
    if (channels == 1) {
        std::memcpy(pixels, planes, count);
        return;
    }
    size_t first = 0;
#if defined(__aarch64__)
    if (channels == COLOURS) {
        for (; first + LANES <= count; first += LANES) {
            const int8x16x3_t pixel = {
                {vld1q_s8(planes + first), vld1q_s8(planes + pitch + first), vld1q_s8(planes + 2 * pitch + first)}};
            vst3q_s8(pixels + first * COLOURS, pixel);
        }
    }
#endif
    if (channels >= LANES) {
        for (; first + LANES <= count; first += LANES) {
            for (size_t channel = 0;; channel += LANES) {
                if (channel + LANES > channels) {
                    if (channel == channels) break;
                    channel = channels - LANES;  // the last ones again, so that 16 are together
                }
                Bytes16 rows[LANES];
                for (size_t row = 0; row < LANES; ++row) rows[row] = load16(planes + (channel + row) * pitch + first);
                transpose16(rows);
                for (size_t row = 0; row < LANES; ++row) store16(pixels + (first + row) * channels + channel, rows[row]);
            }
        }
    }
    for (; first < count; ++first)
        for (size_t channel = 0; channel < channels; ++channel) pixels[first * channels + channel] = planes[channel * pitch + first];
}

void deinterleave(const uint8_t *pixels, size_t channels, uint8_t *planes, size_t pitch, size_t count) {
    if (channels == 1) {
        std::memcpy(planes, pixels, count);
        return;
    }
    size_t first = 0;
#if defined(__aarch64__)
    if (channels == COLOURS) {
        for (; first + LANES <= count; first += LANES) {
            const uint8x16x3_t pixel = vld3q_u8(pixels + first * COLOURS);
            for (size_t channel = 0; channel < COLOURS; ++channel) vst1q_u8(planes + channel * pitch + first, pixel.val[channel]);
        }
    }
#endif
    for (; first < count; ++first)
        for (size_t channel = 0; channel < channels; ++channel) planes[channel * pitch + first] = pixels[first * channels + channel];
}

}  // namespace cnna
