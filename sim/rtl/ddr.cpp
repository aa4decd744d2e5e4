// DDR for the testbench, behind DPI-C: up to four AXI4 slaves of 16-byte beats on one memory.
//
// `tb.sv` calls ddr_clock() once a clock with every port's signals; what it answers is registered, so a ready is promised a clock
// ahead. `ddr_slave.h` moves the data, and a road (`ddr_road.h`) says when. Python (in the simulator's process) reaches settings,
// statistics and faults through ctypes, and the memory itself as the file that ddr_open() maps, without copying.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "ddr_parts.h"
#include "ddr_plain.h"
#include "ddr_ports.h"
#include "ddr_slave.h"
#include "svdpi.h"

namespace {

Settings settings;

std::unique_ptr<Road> chosen_road() {
    bool fast = settings.mts != 2133;
    if (settings.road == 1) return std::make_unique<BoardRoad>(settings, ps_part(fast, kRevision10), kPsPorts);
    if (settings.road == 2) return std::make_unique<BoardRoad>(settings, kPl2666, kPlPorts);
    if (settings.road == 3) return std::make_unique<BoardRoad>(settings, ps_part(fast, kRevision11), kPsPorts);
    return std::make_unique<PlainRoad>(settings);
}

Slave ddr{chosen_road()};

bool bit(const svBitVecVal* vector, int index) { return vector[index / 32] >> (index % 32) & 1; }

uint64_t field(const svBitVecVal* vector, int port, int width) {
    uint64_t value = 0;
    for (int i = 0; i < width; ++i) value |= static_cast<uint64_t>(bit(vector, port * width + i)) << i;
    return value;
}

void set(svBitVecVal* vector, int port, int width, uint64_t value) {
    for (int i = port * width; i < (port + 1) * width; ++i, value >>= 1) {
        vector[i / 32] = (vector[i / 32] & ~(1u << (i % 32))) | static_cast<uint32_t>(value & 1) << (i % 32);
    }
}

Address address(int port, const svBitVecVal* valid, const svBitVecVal* at, const svBitVecVal* length, const svBitVecVal* size,
                const svBitVecVal* kind) {
    if (!bit(valid, port)) return Address{};
    return Address{true, field(at, port, 40), field(length, port, 8), field(size, port, 3), field(kind, port, 2)};
}

}  // namespace

extern "C" {

// Maps the file as memory at bus address `base`; 0, or -1 when it cannot.
int ddr_open(const char* path, uint64_t base, uint64_t bytes) {
    int file = open(path, O_RDWR);
    if (file < 0) return -1;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    close(file);
    if (memory == MAP_FAILED) return -1;
    ddr.memory = static_cast<uint8_t*>(memory);
    ddr.base = base;
    ddr.bytes = bytes;
    return 0;
}

// A setting by name; -1: there is none of that name. `road` and `mts` may change while nothing is under way.
// `stall` is in 256ths, `hang_after` in beats from now (-1: never).
int ddr_set(const char* name, int64_t value) {
    std::string key(name);
    int64_t road = settings.road, mts = settings.mts;
    if (key == "bytes_per_clock") settings.bytes_per_clock = value;
    else if (key == "latency") settings.latency = value;
    else if (key == "write_latency") settings.write_latency = value;
    else if (key == "stall") ddr.stall = value;
    else if (key == "outstanding") settings.outstanding = value;
    else if (key == "clock_mhz") settings.clock_mhz = value;
    else if (key == "ports") settings.ports = value;
    else if (key == "road") settings.road = value;
    else if (key == "mts") settings.mts = value;
    else if (key == "seed") ddr.random = static_cast<uint64_t>(value) * 2 + 1;
    else if (key == "hang_after") ddr.hang_after = value < 0 ? -1 : value + static_cast<int64_t>(ddr.read_beats + ddr.write_beats);
    else return -1;
    if (settings.road != road || settings.mts != mts) ddr.road = chosen_road();
    return 0;
}

void ddr_fault(int port, int write, uint64_t low, uint64_t high, int response, int64_t skip, int64_t times) {
    ddr.faults.push_back(Fault{port, write != 0, low, high, response, skip, times});
}

void ddr_clear_faults() { ddr.faults.clear(); }

uint64_t ddr_clocks() { return ddr.clock; }

// The first breach of the AXI4 protocol, or "".
const char* ddr_violation() { return ddr.violation.c_str(); }

void ddr_log(int enable) {
    ddr.logging = enable != 0;
    ddr.log.clear();
}

// The log so far: its entries (40 bytes each: clock, address, 16 data bytes, strobes) and, through `count`, how many.
const void* ddr_log_entries(uint64_t* count) {
    *count = ddr.log.size();
    return ddr.log.data();
}

// One clock of all ports: inputs are what the ports show at the edge, outputs what the slave shows after it.
void ddr_clock(svBit reset_n, const svBitVecVal* arvalid, const svBitVecVal* araddr, const svBitVecVal* arlen,
               const svBitVecVal* arsize, const svBitVecVal* arburst, const svBitVecVal* rready, const svBitVecVal* awvalid,
               const svBitVecVal* awaddr, const svBitVecVal* awlen, const svBitVecVal* awsize, const svBitVecVal* awburst,
               const svBitVecVal* wvalid, const svBitVecVal* wdata, const svBitVecVal* wstrb, const svBitVecVal* wlast,
               const svBitVecVal* bready, svBitVecVal* arready, svBitVecVal* rvalid, svBitVecVal* rdata, svBitVecVal* rresp,
               svBitVecVal* rlast, svBitVecVal* awready, svBitVecVal* wready, svBitVecVal* bvalid, svBitVecVal* bresp) {
    ++ddr.clock;
    ddr.road->begin_clock(ddr.clock, ddr.idle());
    for (int turn = 0; turn < kPorts; ++turn) {
        int p = (ddr.road->first_port() + turn) % kPorts;
        const Port& port = ddr.ports[p];
        if (!reset_n) {
            ddr.reset_port(p);
        } else {
            FromMaster in{};
            in.ar = address(p, arvalid, araddr, arlen, arsize, arburst);
            in.aw = address(p, awvalid, awaddr, awlen, awsize, awburst);
            in.rready = bit(rready, p);
            in.bready = bit(bready, p);
            in.wvalid = bit(wvalid, p);
            if (in.wvalid) {
                memcpy(in.w.data, wdata + 4 * p, kBeat);
                in.w.strobe = static_cast<uint16_t>(field(wstrb, p, 16));
                in.w.last = bit(wlast, p);
            }
            ddr.clock_port(p, in);
        }
        set(arready, p, 1, port.arready);
        set(rvalid, p, 1, port.rvalid);
        memcpy(rdata + 4 * p, port.rdata, kBeat);
        set(rresp, p, 2, static_cast<uint64_t>(port.rresp));
        set(rlast, p, 1, port.rlast);
        set(awready, p, 1, port.awready);
        set(wready, p, 1, port.wready);
        set(bvalid, p, 1, port.bvalid);
        set(bresp, p, 2, static_cast<uint64_t>(port.bresp));
    }
}

}  // extern "C"
