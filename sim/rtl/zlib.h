// What Verilator's FST writer needs of zlib: an own writer of its format (RFC 1950, RFC 1951), so that no library is needed.
//
// The stream is one block with the fixed codes of RFC 1951, 3.2.6. The level is not looked at.

#pragma once

#include <cstddef>
#include <cstdint>

#include "matches.h"

using uLong = unsigned long;
using uLongf = unsigned long;
using Bytef = unsigned char;
constexpr int Z_OK = 0, Z_BUF_ERROR = -5;

namespace deflate {
constexpr matches::Limits kLimits = {32768, 258, 0, 4};
constexpr int kEnd = 256, kLengths = 257, kLongest = 285, kDistanceBits = 5;

// Appends bits, the lowest first.
struct Bits {
    Bytef* to;
    uint64_t held = 0;
    int count = 0;

    void put(uint32_t value, int bits) {
        held |= static_cast<uint64_t>(value) << count;
        for (count += bits; count >= 8; count -= 8, held >>= 8) *to++ = static_cast<Bytef>(held & 255);
    }

    // A code, whose highest bit comes first.
    void put_code(uint32_t code, int bits) {
        uint32_t turned = 0;
        for (int bit = 0; bit < bits; ++bit) turned |= (code >> bit & 1) << (bits - 1 - bit);
        put(turned, bits);
    }

    // A literal, a length or the end, by the fixed code.
    void put_symbol(int symbol) {
        const uint32_t value = static_cast<uint32_t>(symbol);
        if (symbol < 144) return put_code(0x30 + value, 8);
        if (symbol < kEnd) return put_code(0x190 + value - 144, 9);
        if (symbol < 280) return put_code(value - kEnd, 7);
        put_code(0xC0 + value - 280, 8);
    }

    void end() {
        if (count) put(0, 8 - count);
    }
};

inline int log2_of(long value) {
    int bits = 0;
    while (value >> (bits + 1)) ++bits;
    return bits;
}

// Lengths and distances have codes for ranges that double every 4 or 2 codes, with extra bits for the place in the range.
inline void put_match(Bits& bits, long distance, long length) {
    const long l = length - 3, d = distance - 1;
    const int more_l = l < 8 ? 0 : log2_of(l) - 2, more_d = d < 4 ? 0 : log2_of(d) - 1;
    if (length == kLimits.longest) {
        bits.put_symbol(kLongest);
    } else {
        bits.put_symbol(kLengths + 4 * more_l + static_cast<int>(l >> more_l));
        bits.put(static_cast<uint32_t>(l & ((1L << more_l) - 1)), more_l);
    }
    bits.put_code(static_cast<uint32_t>(2 * more_d + (d >> more_d)), kDistanceBits);
    bits.put(static_cast<uint32_t>(d & ((1L << more_d) - 1)), more_d);
}

inline uint32_t adler32(const Bytef* source, uLong size) {
    uint32_t a = 1, b = 0;
    for (uLong i = 0; i < size; ++i) {
        a = (a + source[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}
}  // namespace deflate

inline uLong compressBound(uLong size) { return size + size / 8 + 16; }  // nine bits a byte at most

inline int compress2(Bytef* target, uLongf* target_size, const Bytef* source, uLong size, int /* level */) {
    if (*target_size < compressBound(size)) return Z_BUF_ERROR;
    deflate::Bits bits{target};
    bits.put(0x0178, 16);  // deflate with a window of 32 KB; a multiple of 31 with the high byte first
    bits.put(0b011, 3);    // the last block, with the fixed codes
    const char* bytes = reinterpret_cast<const char*>(source);
    matches::find(bytes, static_cast<long>(size), deflate::kLimits, [&bits](const char* literals, long count, long distance, long length) {
        for (long i = 0; i < count; ++i) bits.put_symbol(static_cast<Bytef>(literals[i]));
        if (distance) deflate::put_match(bits, distance, length);
    });
    bits.put_symbol(deflate::kEnd);
    bits.end();
    const uint32_t sum = deflate::adler32(source, size);
    for (int shift = 24; shift >= 0; shift -= 8) bits.put(sum >> shift & 255, 8);
    *target_size = static_cast<uLongf>(bits.to - target);
    return Z_OK;
}
