// What the testbench sees inside the accelerator, behind DPI-C: writes to feature memory and to the weight rings, and what the
// engines were at.
//
// `tb.sv` calls these with signals that it only reads. Python (in the simulator's process) fetches the tables through ctypes.

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "svdpi.h"

namespace {

constexpr int kEngines = 4;  // that count units: load, conv, vector, store

struct Stored {  // one word as feature memory took it
    uint32_t clock, address;
    uint8_t word[16];
};

struct Brought {  // a clock in which the weight rings took beats
    uint32_t clock, columns;
};

using Phase = std::array<uint64_t, 6>;  // conv commands started, untouched, state, units done by load, vector, store

struct Probes {
    bool logging = false;
    uint32_t clock = 0;
    std::vector<Stored> log;
    Phase phase{};
    uint64_t phase_clocks = 0;
    std::map<Phase, uint64_t> phases;
    std::vector<std::array<uint64_t, 7>> rows;
    std::vector<std::array<uint64_t, 3>> events;
    std::vector<Brought> brought;
    std::array<uint64_t, kEngines> done{};
    uint64_t since_start = 0;
} probes;

void end_phase() {
    if (probes.phase_clocks) probes.phases[probes.phase] += probes.phase_clocks;
    probes.phase_clocks = 0;
}

}  // namespace

extern "C" {

void probe_log(int enable) {
    probes.logging = enable != 0;
    probes.log.clear();
}

svBit probe_logging() { return probes.logging; }

// One word written to feature memory.
void probe_write(int address, const svBitVecVal* word, int bytes) {
    Stored entry{probes.clock, static_cast<uint32_t>(address), {}};
    memcpy(entry.word, word, static_cast<size_t>(bytes));
    probes.log.push_back(entry);
}

// One clock of the engines. `state` is 0 while the array works, else 1 + why not; `started` counts conv commands since reset.
void probe_clock(svBit clear, svBit running, int started, svBit untouched, int state, int load, int conv, int vector, int store) {
    static uint64_t first_started = 0;
    ++probes.clock;
    if (clear) {
        probes.phase_clocks = 0;
        probes.phases.clear();
        probes.events.clear();
        probes.brought.clear();
        probes.done.fill(0);
        probes.since_start = 0;
        first_started = static_cast<uint32_t>(started);
    }
    if (!running) return;
    ++probes.since_start;
    uint64_t done[kEngines] = {uint64_t(load), uint64_t(conv), uint64_t(vector), uint64_t(store)};
    if (clear) memset(done, 0, sizeof done);  // the counts of the program before are still there in a program's first clock
    for (int engine = 0; engine < kEngines; ++engine) {
        if (done[engine] != probes.done[engine]) {
            probes.done[engine] = done[engine];
            probes.events.push_back({probes.since_start, uint64_t(engine), done[engine]});
        }
    }
    Phase phase{static_cast<uint32_t>(started) - first_started, uint64_t(untouched), uint64_t(state), done[0], done[2], done[3]};
    if (phase != probes.phase) {
        end_phase();
        probes.phase = phase;
    }
    ++probes.phase_clocks;
}

// Beats that the weight rings take in this clock, after `probe_clock`: a bit for each column of the array's ring, then the vector
// engine's.
void probe_weights(int columns) { probes.brought.push_back({static_cast<uint32_t>(probes.since_start), static_cast<uint32_t>(columns)}); }

const void* probe_log_entries(uint64_t* count) {
    *count = probes.log.size();
    return probes.log.data();
}

const void* probe_phases(uint64_t* count) {
    end_phase();
    probes.rows.clear();
    for (const auto& [phase, clocks] : probes.phases) {
        probes.rows.push_back({phase[0], phase[1], phase[2], phase[3], phase[4], phase[5], clocks});
    }
    *count = probes.rows.size();
    return probes.rows.data();
}

const void* probe_events(uint64_t* count) {
    *count = probes.events.size();
    return probes.events.data();
}

const void* probe_brought(uint64_t* count) {
    *count = probes.brought.size();
    return probes.brought.data();
}

}  // extern "C"
