// Finds bytes that repeat earlier ones, for the two writers of compressed data in waveforms (`lz4.h`, `zlib.h`).

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace matches {
constexpr int kShortest = 4, kMostBits = 14;

// farthest: distance of a match. longest: its bytes. last_literals: bytes at the end that are in none. no_match_from: before the end.
struct Limits {
    long farthest, longest, last_literals, no_match_from;
};

inline uint32_t word(const char* at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

inline int bits_for(long size) {
    int bits = 6;
    while (bits < kMostBits && (1L << bits) < size) ++bits;
    return bits;
}

// Calls emit(literals, count of literals, distance, length) for each match, with the bytes before it, and at the end with the bytes
// that are left and distance 0. A match is with the last place where the same four bytes stood, as far as it goes.
template <typename Emit>
void find(const char* source, long size, const Limits& limits, Emit emit) {
    const int bits = bits_for(size);
    std::vector<long> last(size_t{1} << bits, -1);
    long at = 0, written = 0;
    while (at < size - limits.no_match_from) {
        long& place = last[(word(source + at) * 2654435761u) >> (32 - bits)];
        const long before = place;
        place = at;
        if (before < 0 || at - before > limits.farthest || word(source + before) != word(source + at)) {
            ++at;
            continue;
        }
        const long most = size - limits.last_literals - at < limits.longest ? size - limits.last_literals - at : limits.longest;
        long length = kShortest;
        while (length < most && source[before + length] == source[at + length]) ++length;
        emit(source + written, at - written, at - before, length);
        at += length;
        written = at;
    }
    emit(source + written, size - written, 0L, 0L);
}
}  // namespace matches
