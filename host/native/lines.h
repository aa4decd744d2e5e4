// The lines of a cache that hold some bytes.
#ifndef CNNA_LINES_H
#define CNNA_LINES_H

#include <cstddef>
#include <cstdint>

namespace cnna {

// Calls `each` with the address of every line that holds one of these bytes. line: bytes, a power of two.
template <typename Each>
void each_line(const uint8_t *memory, size_t bytes, size_t line, Each each) {
    const auto first = reinterpret_cast<uintptr_t>(memory), end = first + bytes;
    for (uintptr_t at = first & ~(line - 1); bytes && at < end; at += line) each(at);
}

}  // namespace cnna

#endif
