// Packing by several threads: see loop_packing.h.
#include "loop_packing.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "barrier.h"
#include "checks.h"
#include "pack.h"

namespace cnna {

namespace {

constexpr size_t LINE = 64;  // bytes, where the processor's own lines are unknown

// One input of a run. code: whether it may be packed.
struct Packing {
    Packing(Program &program, const Job &job, size_t input, size_t line, size_t wanted)
        : port(program.in[input]), given(job.inputs[input]), images(program.images), memory(program.memory(job.slot, input)),
          bytes(program.bytes(port)), code(packable(port, given.tensor, given.table, images, memory, bytes)),
          bands(port, images, memory, line, wanted), packers(program.packers[input]) {
        if (packers.size() < bands.count) packers.resize(bands.count);
    }

    // Packs a band. Its lines are cleaned at once where no other band has a part of them.
    int band(size_t number, const cnna_cache &cache) const {
        const Written each = [](const void *context, const uint8_t *first, size_t count) {
            const auto &own = *static_cast<const cnna_cache *>(context);
            own.clean(own.context, first, count);
        };
        const bool cleans = cache.clean && bands.apart;
        const int found =
            packers[number].pack(port, given.tensor, given.table, images, memory, bands, number, cleans ? each : nullptr, &cache);
        barrier();  // of this thread's writes, which the thread that starts the run cannot wait for
        return found;
    }

    const cnna_port &port;
    const Job::Input &given;
    const int64_t images;
    uint8_t *const memory;
    const size_t bytes;
    const int code;
    const Bands bands;
    std::vector<BandPacker> &packers;
};

}  // namespace

void LoopPacking::pack(Job &job, Program &program, const std::function<void()> &besides) {
    const size_t line = cnna_cache_line(), wanted = 2 * team_.threads() - 1;  // so that none waits for the one that does `besides`
    job.packed = true, job.slot = program.next_slot;
    std::vector<Packing> packings;
    job.code = guarded([&] {
        packings.reserve(job.inputs.size());
        for (size_t input = 0; input < job.inputs.size(); ++input)
            packings.emplace_back(program, job, input, line ? line : LINE, std::min(wanted, program.bytes(program.in[input]) / band_bytes_));
        return static_cast<int>(CNNA_OK);
    });
    size_t bands = 0;
    for (const Packing &one : packings) bands += one.bands.count, job.code = one.code != CNNA_OK ? one.code : job.code;
    if (job.code != CNNA_OK) bands = 0;
    const size_t first = besides ? 1 : 0;
    std::atomic<int> code{job.code};
    team_.share(first + bands, [&](size_t part) {
        if (part < first) return besides();
        part -= first;
        size_t input = 0;
        while (part >= packings[input].bands.count) part -= packings[input++].bands.count;
        if (const int found = packings[input].band(part, cache_); found != CNNA_OK) code = found;
    });
    job.code = code;
    if (job.code != CNNA_OK) return;
    for (const Packing &one : packings)
        if (cache_.clean && !one.bands.apart) cache_.clean(cache_.context, one.memory, one.bytes);
    program.next_slot = (program.next_slot + 1) % program.slots;
}

}  // namespace cnna
