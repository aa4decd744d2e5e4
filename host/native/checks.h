// What a caller's numbers must be before anything is read or written: sizes without overflow, and arrays that are long enough.
#ifndef CNNA_CHECKS_H
#define CNNA_CHECKS_H

#include <cstddef>
#include <cstdint>
#include <new>

#include "cnna_host.h"

namespace cnna {

constexpr int64_t MOST = int64_t{1} << 31;       // of any number of bytes
constexpr int64_t MOST_SIZE = int64_t{1} << 20;  // of an axis: a product of three fits into 64 bits

inline bool within(int64_t value, int64_t low, int64_t high = MOST) { return low <= value && value <= high; }

inline int64_t blocks(const cnna_port &port) { return (port.folded[0] + port.ci - 1) / port.ci; }

// Whether the words of a port lie apart, in the order image, block, row: then every byte can be written in one go.
inline bool in_order(const cnna_port &port) {
    return port.row_bytes >= port.folded[2] * port.ci && port.block_bytes >= port.folded[1] * port.row_bytes &&
           port.image_bytes >= blocks(port) * port.block_bytes;
}

inline bool sound(const cnna_port &port) {
    bool sizes = within(port.ci, 1, 4096) && within(port.zero, -128, 127) && within(port.image_bytes, 1) &&
                 within(port.block_bytes, 0) && within(port.row_bytes, 0) && port.scale > 0;
    for (int64_t size : port.folded) sizes = sizes && within(size, 1, MOST_SIZE);
    for (int axis = 0; axis < 2; ++axis)
        sizes = sizes && within(port.step[axis], 1, 4096) && within(port.span[axis], 1, 4096) && within(port.before[axis], -4096, 4096);
    return sizes;
}

// Whether `bytes` hold so many images, and the last word of an image lies within it.
inline bool fits(const cnna_port &port, int64_t images, size_t bytes) {
    const int64_t last = (blocks(port) - 1) * port.block_bytes + (port.folded[1] - 1) * port.row_bytes + port.folded[2] * port.ci;
    return within(images, 1) && last <= port.image_bytes && static_cast<size_t>(images) <= bytes / static_cast<size_t>(port.image_bytes);
}

constexpr int64_t MOST_COUNT = 4096;  // of programs, ports, slots, writes and registers

inline bool sound(const cnna_program &program) {
    const bool counts = within(program.images, 1) && within(program.inputs, 0, MOST_COUNT) && within(program.outputs, 0, MOST_COUNT) &&
                        within(program.slots, 1, MOST_COUNT) && within(program.writes, 0, MOST_COUNT);
    const int64_t ports = program.inputs + program.outputs;
    if (!counts || (program.inputs && !program.in) || (program.outputs && !program.out) || (program.writes && !program.words)) return false;
    for (int64_t number = 0; number < ports; ++number) {
        const cnna_port &port = number < program.inputs ? program.in[number] : program.out[number - program.inputs];
        if (!sound(port) || !fits(port, program.images, SIZE_MAX)) return false;
    }
    for (int64_t number = 0; number < program.slots * ports; ++number)
        if (!program.memories || !program.memories[number]) return false;
    return true;
}

inline bool sound(const cnna_device &device) {
    const bool counts = within(device.programs, 1, MOST_COUNT) && within(device.counters, 0, MOST_COUNT) &&
                        within(device.progress, 0, MOST_COUNT) && within(device.limit_clocks, 0, INT64_MAX) && within(device.places, 0, MOST_COUNT) && device.timeout_seconds >= 0;
    if (!counts || !device.registers || !device.program) return false;
    if ((device.counters && !device.counter_offsets) || (device.progress && !device.progress_offsets)) return false;
    for (int64_t number = 0; number < device.programs; ++number)
        if (!sound(device.program[number])) return false;
    return true;
}

// Lets no exception pass the door: only `bad_alloc` can come.
template <typename Work>
int guarded(Work work) noexcept {
    try {
        return work();
    } catch (const std::bad_alloc &) {
        return CNNA_MEMORY;
    }
}

}  // namespace cnna

#endif
