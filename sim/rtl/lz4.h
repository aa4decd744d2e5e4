// The two functions of LZ4 that Verilator's FST writer calls: an own writer of LZ4's block format, so that no library is needed.
//
// A block is a row of sequences: a token (4 bits of literals, 4 bits of the match beyond 4 bytes), more bytes where a half is 15,
// the literals, and the distance of the match in two bytes. The last 5 bytes are literals, and no match begins in the last 12.

#pragma once

#include <cstdint>
#include <cstring>

#include "matches.h"

namespace lz4 {
constexpr matches::Limits kLimits = {65535, 1L << 40, 5, 12};

// Writes what a half of a token has no room for.
inline void put_rest(char*& to, long length) {
    for (length -= 15; length >= 255; length -= 255) *to++ = static_cast<char>(255);
    *to++ = static_cast<char>(length);
}

// Writes a sequence; distance 0: the last one, which has no match.
inline void put_sequence(char*& to, const char* literals, long count, long distance, long match) {
    const long more = distance ? match - matches::kShortest : 0;
    *to++ = static_cast<char>((count < 15 ? count : 15) << 4 | (more < 15 ? more : 15));
    if (count >= 15) put_rest(to, count);
    memcpy(to, literals, static_cast<size_t>(count));
    to += count;
    if (!distance) return;
    *to++ = static_cast<char>(distance & 255);
    *to++ = static_cast<char>(distance >> 8);
    if (more >= 15) put_rest(to, more);
}
}  // namespace lz4

inline int LZ4_compressBound(int size) { return size + size / 255 + 16; }

// Returns the size; 0: the target is too small.
inline int LZ4_compress_default(const char* source, char* target, int size, int capacity) {
    if (capacity < LZ4_compressBound(size)) return 0;
    char* to = target;
    matches::find(source, size, lz4::kLimits, [&to](const char* literals, long count, long distance, long length) {
        lz4::put_sequence(to, literals, count, distance, length);
    });
    return static_cast<int>(to - target);
}
