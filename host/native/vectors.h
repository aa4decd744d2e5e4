// 16 bytes at a time, on every processor: GCC's vectors, which become NEON on aarch64 and SSE2 on x86-64.
#ifndef CNNA_VECTORS_H
#define CNNA_VECTORS_H

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cnna {

constexpr size_t LANES = 16;
using Bytes16 = uint8_t __attribute__((vector_size(LANES)));
using Floats4 = float __attribute__((vector_size(LANES)));
using Shorts8 = int16_t __attribute__((vector_size(LANES)));
using Whole4 = int32_t __attribute__((vector_size(LANES)));

inline Bytes16 load16(const void *from) {
    Bytes16 made;
    std::memcpy(&made, from, LANES);
    return made;
}

// As a vector: a copy of memory behind a load would go through other registers, and through the stack.
inline void store16(void *to, Bytes16 value) {
    using Anywhere = uint8_t __attribute__((vector_size(LANES), aligned(1), may_alias));
    *static_cast<Anywhere *>(to) = value;
}

inline Bytes16 all16(int8_t value) { return Bytes16{} + static_cast<uint8_t>(value); }

// Lanes of `yes` where the mask has ones, else those of `no`.
inline Bytes16 select16(Bytes16 mask, Bytes16 yes, Bytes16 no) { return (yes & mask) | (no & ~mask); }

// Bytes 0, 2, 4 and so on of two vectors.
inline Bytes16 evens16(Bytes16 a, Bytes16 b) {
#if defined(__clang__)
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
#else
    return __builtin_shuffle(a, b, Bytes16{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30});
#endif
}

// The first halves of two vectors, or the second ones, byte by byte in turn.
template <bool SECOND>
Bytes16 in_turn16(Bytes16 a, Bytes16 b) {
#if defined(__clang__)
    return SECOND ? __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
                  : __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
#else
    constexpr Bytes16 first = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
    constexpr Bytes16 second = {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return __builtin_shuffle(a, b, SECOND ? second : first);
#endif
}

// The same, number by number.
template <bool SECOND>
Shorts8 in_turn8(Shorts8 a, Shorts8 b) {
#if defined(__clang__)
    return SECOND ? __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15) : __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
#else
    constexpr Shorts8 first = {0, 8, 1, 9, 2, 10, 3, 11}, second = {4, 12, 5, 13, 6, 14, 7, 15};
    return __builtin_shuffle(a, b, SECOND ? second : first);
#endif
}

// Transposes 16 rows of 16 bytes: byte j of row i becomes byte i of row j. Four rounds, each of which interleaves rows 8 apart.
inline void transpose16(Bytes16 (&rows)[LANES]) {
    Bytes16 other[LANES];
    for (int round = 0; round < 2; ++round) {
        for (size_t i = 0; i < LANES / 2; ++i) {
            other[2 * i] = in_turn16<false>(rows[i], rows[i + LANES / 2]);
            other[2 * i + 1] = in_turn16<true>(rows[i], rows[i + LANES / 2]);
        }
        for (size_t i = 0; i < LANES / 2; ++i) {
            rows[2 * i] = in_turn16<false>(other[i], other[i + LANES / 2]);
            rows[2 * i + 1] = in_turn16<true>(other[i], other[i + LANES / 2]);
        }
    }
}

}  // namespace cnna

#endif
