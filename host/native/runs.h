// Runs of elements: look-up, rounding, interleaving and their inverses. pack.cpp and unpack.cpp call them for each row.
//
// Each has a scalar form; where NEON pays, that form stands beside it, and the tests hold the two equal.
#ifndef CNNA_RUNS_H
#define CNNA_RUNS_H

#include <cstddef>
#include <cstdint>

namespace cnna {

constexpr size_t TABLE = 256;   // entries of a table, one for each uint8
constexpr size_t COLOURS = 3;  // channels of a pixel that NEON takes apart and puts together

// to[i] = table[from[i]]; the two may be one place.
void look_up(const uint8_t *from, const int8_t *table, int8_t *to, size_t count);

// Pixels [count][COLOURS], each colour by its own of the tables [COLOURS][TABLE].
void look_up_colours(const uint8_t *from, const int8_t *tables, int8_t *to, size_t count);

// to[i] = clamp(round_half_even(from[i] / scale) + zero). Returns whether one of them is NaN.
bool quantise(const float *from, float scale, int zero, int8_t *to, size_t count);

// to[i] = (from[i] - zero) * scale
void dequantise(const int8_t *from, float scale, int zero, float *to, size_t count);

// Planes [channels][count], `pitch` bytes apart, to pixels [count][channels], and back.
void interleave(const int8_t *planes, size_t pitch, size_t channels, int8_t *pixels, size_t count);
void deinterleave(const uint8_t *pixels, size_t channels, uint8_t *planes, size_t pitch, size_t count);

}  // namespace cnna

#endif
