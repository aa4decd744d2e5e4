// Waveforms of a window of clocks, behind DPI-C: Verilator has no $dumpoff. `tb.sv` calls these; only builds with --trace have them.

#include <cstdint>

#include "verilated.h"
#include "verilated_fst_c.h"

namespace {
VerilatedFstC* trace = nullptr;
constexpr int kLevels = 99;  // of hierarchy: all
}  // namespace

extern "C" {

void trace_open(const char* file) {
    if (trace) return;
    trace = new VerilatedFstC;
    trace->set_time_unit("1ns");
    trace->set_time_resolution("1ns");
    Verilated::threadContextp()->trace(trace, kLevels);
    trace->open(file);
}

// Everything as it stands, at a time that only grows.
void trace_dump(int time) {
    if (trace && trace->isOpen()) trace->dump(static_cast<uint64_t>(static_cast<uint32_t>(time)));
}

void trace_close() {
    if (trace && trace->isOpen()) trace->close();
}

}  // extern "C"
