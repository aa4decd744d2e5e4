// The lines of a cache that hold some bytes.
#ifndef CNNA_LINES_H
#define CNNA_LINES_H

#include <cstddef>
#include <cstdint>

namespace cnna {

// Calls `each` with the address of every line that holds one of these bytes. line: bytes, a power of two.
template <typename Each>
void each_line(const uint8_t *memory, size_t bytes, size_t line, Each each) {
    uintptr_t at = reinterpret_cast<uintptr_t>(memory) & ~(line - 1);
    const uintptr_t end = reinterpret_cast<uintptr_t>(memory) + bytes;
#pragma GCC unroll 16
    for (size_t left = bytes ? (end - at + line - 1) / line : 0; left; --left, at += line) each(at);
}

}  // namespace cnna

#endif
