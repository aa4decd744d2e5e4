// Makes bytes in cached memory visible to the accelerator and to the host, which see DDR by different ways.
//
// Linux lets user space clean lines (DC CVAC) and clean and invalidate them (DC CIVAC), both to the point where all masters meet. A line
// is cleaned after the host's last write and before the start. It is invalidated after the run: the processor may have fetched it at
// any time before, because it reads ahead. To invalidate alone is for the kernel; CIVAC writes a dirty line back first. So no line of
// what the accelerator writes may be dirty when a run begins.
#include "cnna_host.h"
#include "lines.h"

#if defined(__aarch64__)

size_t cnna_cache_line(void) {
    uint64_t type;
    asm("mrs %0, ctr_el0" : "=r"(type));
    return size_t{4} << ((type >> 16) & 15);  // DminLine: the words of the smallest line of data, as a power of two
}

void cnna_cache_clean(void *, const uint8_t *memory, size_t bytes) {
    cnna::each_line(memory, bytes, cnna_cache_line(), [](uintptr_t at) { asm volatile("dc cvac, %0" ::"r"(at) : "memory"); });
    asm volatile("dsb sy" ::: "memory");
}

void cnna_cache_invalidate(void *, const uint8_t *memory, size_t bytes) {
    asm volatile("dsb sy" ::: "memory");  // no line is thrown away before the run's end was seen
    cnna::each_line(memory, bytes, cnna_cache_line(), [](uintptr_t at) { asm volatile("dc civac, %0" ::"r"(at) : "memory"); });
    asm volatile("dsb sy" ::: "memory");
}

#else

size_t cnna_cache_line(void) { return 0; }
void cnna_cache_clean(void *, const uint8_t *, size_t) {}
void cnna_cache_invalidate(void *, const uint8_t *, size_t) {}

#endif
