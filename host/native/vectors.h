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

// Transposes 16 rows of 16 bytes: byte j of row i becomes byte i of row j. Four rounds, each of which interleaves rows 8 apart.
inline void transpose16(Bytes16 (&rows)[LANES]) {
#if defined(__clang__)
#define CNNA_ZIP(a, b, first) \
    ((first) ? __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23) \
             : __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31))
#else
    constexpr Bytes16 low = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
    constexpr Bytes16 high = {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
#define CNNA_ZIP(a, b, first) __builtin_shuffle(a, b, (first) ? low : high)
#endif
    Bytes16 other[LANES];
    for (int round = 0; round < 2; ++round) {
        for (size_t i = 0; i < LANES / 2; ++i) {
            other[2 * i] = CNNA_ZIP(rows[i], rows[i + LANES / 2], true);
            other[2 * i + 1] = CNNA_ZIP(rows[i], rows[i + LANES / 2], false);
        }
        for (size_t i = 0; i < LANES / 2; ++i) {
            rows[2 * i] = CNNA_ZIP(other[i], other[i + LANES / 2], true);
            rows[2 * i + 1] = CNNA_ZIP(other[i], other[i + LANES / 2], false);
        }
    }
#undef CNNA_ZIP
}

}  // namespace cnna

#endif
