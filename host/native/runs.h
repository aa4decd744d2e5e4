// Runs of elements: look-up, rounding, interleaving and their inverses. pack.cpp and unpack.cpp call them for each row.
//
// Each has a scalar form; where NEON pays, that form stands beside it, and the tests hold the two equal.
#ifndef CNNA_RUNS_H
#define CNNA_RUNS_H

#include <cstddef>
#include <cstdint>

namespace cnna {

// to[i] = table[from[i]]; the two may be one place.
void look_up(const uint8_t *from, const int8_t *table, int8_t *to, size_t count);

// to[i] = clamp(round_half_even(from[i] / scale) + zero). Returns whether one of them is NaN.
bool quantise(const float *from, float scale, int zero, int8_t *to, size_t count);

// to[i] = (from[i] - zero) * scale
void dequantise(const int8_t *from, float scale, int zero, float *to, size_t count);

// Planes [channels][count], `pitch` bytes apart, to pixels [count][channels], and back.
void interleave(const int8_t *planes, size_t pitch, size_t channels, int8_t *pixels, size_t count);
void deinterleave(const uint8_t *pixels, size_t channels, uint8_t *planes, size_t pitch, size_t count);

}  // namespace cnna

#endif
