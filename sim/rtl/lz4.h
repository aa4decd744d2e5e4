// The two functions of LZ4 that Verilator's FST writer calls: an own writer of LZ4's block format, so that no library is needed.
//
// A block is a row of sequences: a token (4 bits of literals, 4 bits of the match beyond 4 bytes), more bytes where a half is 15,
// the literals, and the distance of the match in two bytes. The last 5 bytes are literals, and no match begins in the last 12.

#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

namespace lz4 {
constexpr int kShortest = 4, kLastLiterals = 5, kNoMatchFrom = 12, kFarthest = 65535, kMostBits = 14;

inline uint32_t word(const char* at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

// Writes what a half of a token has no room for.
inline void put_rest(char*& to, int length) {
    for (length -= 15; length >= 255; length -= 255) *to++ = static_cast<char>(255);
    *to++ = static_cast<char>(length);
}

// Writes a sequence; distance 0: the last one, which has no match.
inline void put_sequence(char*& to, const char* literals, int count, int distance, int match) {
    const int more = distance ? match - kShortest : 0;
    *to++ = static_cast<char>((count < 15 ? count : 15) << 4 | (more < 15 ? more : 15));
    if (count >= 15) put_rest(to, count);
    memcpy(to, literals, static_cast<size_t>(count));
    to += count;
    if (!distance) return;
    *to++ = static_cast<char>(distance & 255);
    *to++ = static_cast<char>(distance >> 8);
    if (more >= 15) put_rest(to, more);
}

inline int bits_for(int size) {
    int bits = 6;
    while (bits < kMostBits && (1 << bits) < size) ++bits;
    return bits;
}
}  // namespace lz4

inline int LZ4_compressBound(int size) { return size + size / 255 + 16; }

// Takes the last place where the same four bytes stood, as far as the match goes. Returns the size; 0: the target is too small.
inline int LZ4_compress_default(const char* source, char* target, int size, int capacity) {
    if (capacity < LZ4_compressBound(size)) return 0;
    char* to = target;
    const int bits = lz4::bits_for(size);
    std::vector<int> last(size_t{1} << bits, -1);
    int at = 0, written = 0;
    while (at < size - lz4::kNoMatchFrom) {
        int& place = last[(lz4::word(source + at) * 2654435761u) >> (32 - bits)];
        const int before = place;
        place = at;
        if (before < 0 || at - before > lz4::kFarthest || lz4::word(source + before) != lz4::word(source + at)) {
            ++at;
            continue;
        }
        int match = lz4::kShortest;
        while (at + match < size - lz4::kLastLiterals && source[before + match] == source[at + match]) ++match;
        lz4::put_sequence(to, source + written, at - written, at - before, match);
        at += match;
        written = at;
    }
    lz4::put_sequence(to, source + written, size - written, 0, 0);
    return static_cast<int>(to - target);
}
