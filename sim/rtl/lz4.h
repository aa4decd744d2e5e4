// The two functions of LZ4 that Verilator's FST writer calls, as a block of literals: valid LZ4, not smaller, and no library needed.

#pragma once

#include <cstring>

inline int LZ4_compressBound(int size) { return size + size / 255 + 16; }

inline int LZ4_compress_default(const char* source, char* target, int size, int capacity) {
    if (capacity < LZ4_compressBound(size)) return 0;
    char* to = target;
    if (size < 15) {
        *to++ = static_cast<char>(size << 4);
    } else {
        *to++ = static_cast<char>(0xF0);
        int rest = size - 15;
        for (; rest >= 255; rest -= 255) *to++ = static_cast<char>(0xFF);
        *to++ = static_cast<char>(rest);
    }
    memcpy(to, source, static_cast<size_t>(size));
    return static_cast<int>(to - target) + size;
}
