// What Verilator's FST writer needs of zlib, as stored blocks: a valid stream, not smaller, and no library needed.

#pragma once

#include <cstddef>
#include <cstring>

using uLong = unsigned long;
using uLongf = unsigned long;
using Bytef = unsigned char;
constexpr int Z_OK = 0, Z_BUF_ERROR = -5;
constexpr uLong kStoredBytes = 65535;  // at most in one block

inline uLong compressBound(uLong size) { return size + (size / kStoredBytes + 1) * 5 + 6; }

inline int compress2(Bytef* target, uLongf* target_size, const Bytef* source, uLong size, int /* level */) {
    if (*target_size < compressBound(size)) return Z_BUF_ERROR;
    Bytef* to = target;
    *to++ = 0x78;
    *to++ = 0x01;
    uLong a = 1, b = 0, done = 0;
    do {
        uLong part = size - done < kStoredBytes ? size - done : kStoredBytes;
        *to++ = done + part == size;
        *to++ = static_cast<Bytef>(part & 255);
        *to++ = static_cast<Bytef>(part >> 8);
        *to++ = static_cast<Bytef>(~part & 255);
        *to++ = static_cast<Bytef>(~part >> 8 & 255);
        memcpy(to, source + done, part);
        for (uLong i = 0; i < part; ++i) {
            a = (a + to[i]) % 65521;
            b = (b + a) % 65521;
        }
        to += part;
        done += part;
    } while (done < size);
    for (int shift = 8; shift >= 0; shift -= 8) *to++ = static_cast<Bytef>(b >> shift & 255);
    for (int shift = 8; shift >= 0; shift -= 8) *to++ = static_cast<Bytef>(a >> shift & 255);
    *target_size = static_cast<uLongf>(to - target);
    return Z_OK;
}
