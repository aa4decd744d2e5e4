// DDR for the testbench, behind DPI-C: up to four AXI4 slaves of 16-byte beats on one memory.
//
// `tb.sv` calls ddr_clock() once a clock with every port's signals; what it answers is registered, so a ready is promised a clock
// ahead. All ports share `bytes_per_clock`, reads and writes together. Python (in the simulator's process) reaches settings,
// statistics and faults through ctypes, and the memory itself as the file that ddr_open() maps, without copying.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "svdpi.h"

namespace {

constexpr int kPorts = 4;
constexpr int kBeat = 16;
constexpr uint64_t kPage = 4096;
constexpr int kOkay = 0, kDecerr = 3;
constexpr size_t kWriteBeatsHeld = 64;

struct Burst {
    uint64_t address;
    unsigned beats;
    uint64_t ready_at;  // clock from which it may be answered
    int response;
};

struct WriteBeat {
    uint8_t data[kBeat];
    uint16_t strobe;
    bool last;
};

// What the master drove and had not yet been taken: it must not change.
struct Held {
    bool valid = false;
    uint8_t payload[24] = {};
};

struct Port {
    std::deque<Burst> reads, writes, responses;
    std::deque<WriteBeat> write_beats;
    bool arready = false, awready = false, wready = false, rvalid = false, bvalid = false;
    uint8_t rdata[kBeat] = {};
    int rresp = 0, bresp = 0;
    bool rlast = false;
    Held ar, aw, w;
};

struct Fault {
    int port;  // -1: any
    bool write;
    uint64_t low, high;  // bus addresses, low included
    int response;
    int64_t skip;   // matching beats that still pass
    int64_t times;  // how often it strikes, -1: always
};

struct Written {  // one beat as the memory took it
    uint64_t clock, address;
    uint8_t data[kBeat];
    uint64_t strobe;
};

struct Ddr {
    uint8_t* memory = nullptr;
    uint64_t base = 0, bytes = 0;
    int64_t bytes_per_clock = 48, latency = 120, write_latency = 120, stall = 0, outstanding = 64, hang_after = -1;
    uint64_t random = 1;
    int64_t credit = 0;
    uint64_t clock = 0, read_beats = 0, write_beats = 0;
    int first = 0;  // port that is served first in this clock: the next one in each that has a beat to give, 0 when all is idle
    Port ports[kPorts];
    std::vector<Fault> faults;
    std::vector<Written> log;
    bool logging = false;
    std::string violation;
} ddr;

uint32_t draw() {  // xorshift64*
    ddr.random ^= ddr.random >> 12;
    ddr.random ^= ddr.random << 25;
    ddr.random ^= ddr.random >> 27;
    return static_cast<uint32_t>((ddr.random * 0x2545F4914F6CDD1DULL) >> 32);
}

bool stalled() { return ddr.stall > 0 && static_cast<int64_t>(draw() & 255) < ddr.stall; }

bool hangs() { return ddr.hang_after >= 0 && ddr.read_beats + ddr.write_beats >= static_cast<uint64_t>(ddr.hang_after); }

void violate(int port, const char* what) {
    if (!ddr.violation.empty()) return;
    char text[160];
    snprintf(text, sizeof text, "port %d, clock %llu: %s", port, static_cast<unsigned long long>(ddr.clock), what);
    ddr.violation = text;
}

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

// A master must hold valid and payload until ready: checks it and remembers for the next clock.
void hold(int port, Held& held, bool valid, bool ready, const void* payload, size_t size, const char* what) {
    if (held.valid && (!valid || memcmp(held.payload, payload, size) != 0)) violate(port, what);
    held.valid = valid && !ready;
    if (held.valid) memcpy(held.payload, payload, size);
}

void check_burst(int port, uint64_t address, unsigned beats, uint64_t size, uint64_t kind) {
    if (size != 4 || kind != 1) violate(port, "a burst that is not incrementing in beats of 16 bytes");
    if (address % kBeat) violate(port, "a burst address that is no multiple of 16");
    if (address / kPage != (address + uint64_t{beats} * kBeat - 1) / kPage) violate(port, "a burst across a 4 KiB boundary");
}

int respond(int port, bool write, uint64_t address) {
    for (Fault& fault : ddr.faults) {
        if (fault.write != write || (fault.port >= 0 && fault.port != port)) continue;
        if (address < fault.low || address >= fault.high || fault.times == 0) continue;
        if (fault.skip > 0) {
            --fault.skip;
            continue;
        }
        if (fault.times > 0) --fault.times;
        return fault.response;
    }
    return address >= ddr.base && address + kBeat <= ddr.base + ddr.bytes ? kOkay : kDecerr;
}

void write_beat(int port, Burst& burst, const WriteBeat& beat) {
    int response = respond(port, true, burst.address);
    if (response != kOkay && burst.response == kOkay) burst.response = response;
    if (response == kOkay) {
        uint8_t* to = ddr.memory + (burst.address - ddr.base);
        for (int i = 0; i < kBeat; ++i) {
            if (beat.strobe >> i & 1) to[i] = beat.data[i];
        }
        if (ddr.logging) {
            Written entry{ddr.clock, burst.address, {}, beat.strobe};
            memcpy(entry.data, beat.data, kBeat);
            ddr.log.push_back(entry);
        }
    }
    burst.address += kBeat;
    if (beat.last != (--burst.beats == 0)) violate(port, "WLAST is not on the last beat");
}

// Whether no port has anything under way: then the turn begins anew, so a program's clocks do not depend on when it starts.
bool idle() {
    for (const Port& port : ddr.ports) {
        if (!port.reads.empty() || !port.writes.empty() || !port.responses.empty() || !port.write_beats.empty()) return false;
        if (port.rvalid || port.bvalid || port.wready) return false;
    }
    return true;
}

// Takes credit for one beat, if there is enough.
bool pay() {
    if (ddr.credit < kBeat) return false;
    ddr.credit -= kBeat;
    return true;
}

void serve_read(int index, Port& port, bool rready) {
    if (port.rvalid && !rready) return;
    port.rvalid = false;
    if (port.reads.empty() || port.reads.front().ready_at > ddr.clock || hangs() || stalled() || !pay()) return;
    Burst& burst = port.reads.front();
    port.rresp = respond(index, false, burst.address);
    if (port.rresp == kOkay) {
        memcpy(port.rdata, ddr.memory + (burst.address - ddr.base), kBeat);
    } else {
        memset(port.rdata, 0, kBeat);
    }
    burst.address += kBeat;
    port.rlast = --burst.beats == 0;
    if (port.rlast) port.reads.pop_front();
    port.rvalid = true;
    ++ddr.read_beats;
}

void serve_write(Port& port, int index, bool wvalid, bool bready) {
    while (!port.write_beats.empty() && !port.writes.empty()) {
        Burst& burst = port.writes.front();
        write_beat(index, burst, port.write_beats.front());
        port.write_beats.pop_front();
        if (burst.beats == 0) {
            burst.ready_at = ddr.clock + ddr.write_latency;
            port.responses.push_back(burst);
            port.writes.pop_front();
        }
    }
    port.wready = wvalid && port.write_beats.size() < kWriteBeatsHeld && !hangs() && !stalled() && pay();
    if (port.bvalid && !bready) return;
    port.bvalid = false;
    if (port.responses.empty() || port.responses.front().ready_at > ddr.clock || hangs() || stalled()) return;
    port.bresp = port.responses.front().response;
    port.bvalid = true;
    port.responses.pop_front();
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

// A setting by name; -1: there is none of that name. `stall` is in 256ths, `hang_after` in beats from now (-1: never).
int ddr_set(const char* name, int64_t value) {
    std::string key(name);
    if (key == "bytes_per_clock") ddr.bytes_per_clock = value;
    else if (key == "latency") ddr.latency = value;
    else if (key == "write_latency") ddr.write_latency = value;
    else if (key == "stall") ddr.stall = value;
    else if (key == "outstanding") ddr.outstanding = value;
    else if (key == "seed") ddr.random = static_cast<uint64_t>(value) * 2 + 1;
    else if (key == "hang_after") ddr.hang_after = value < 0 ? -1 : value + static_cast<int64_t>(ddr.read_beats + ddr.write_beats);
    else return -1;
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
    ddr.credit += ddr.bytes_per_clock;
    if (ddr.credit > ddr.bytes_per_clock + kBeat - 1) ddr.credit = ddr.bytes_per_clock + kBeat - 1;
    if (idle()) ddr.first = 0;
    else if (ddr.credit >= kBeat) ddr.first = (ddr.first + 1) % kPorts;
    for (int turn = 0; turn < kPorts; ++turn) {
        int p = (ddr.first + turn) % kPorts;
        Port& port = ddr.ports[p];
        if (!reset_n) {
            port = Port();
        } else {
            bool wants_write = bit(wvalid, p);
            struct { uint64_t address, shape; } ar{0, 0}, aw{0, 0};
            if (bit(arvalid, p)) {
                ar = {field(araddr, p, 40), field(arlen, p, 8) << 8 | field(arsize, p, 3) << 2 | field(arburst, p, 2)};
            }
            if (bit(awvalid, p)) {
                aw = {field(awaddr, p, 40), field(awlen, p, 8) << 8 | field(awsize, p, 3) << 2 | field(awburst, p, 2)};
            }
            hold(p, port.ar, bit(arvalid, p), port.arready, &ar, sizeof ar, "AR changed or fell before ARREADY");
            hold(p, port.aw, bit(awvalid, p), port.awready, &aw, sizeof aw, "AW changed or fell before AWREADY");
            if (bit(arvalid, p) && port.arready) {
                unsigned beats = static_cast<unsigned>(ar.shape >> 8) + 1;
                check_burst(p, ar.address, beats, ar.shape >> 2 & 7, ar.shape & 3);
                port.reads.push_back(Burst{ar.address, beats, ddr.clock + static_cast<uint64_t>(ddr.latency) - 1, kOkay});
            }
            if (bit(awvalid, p) && port.awready) {
                unsigned beats = static_cast<unsigned>(aw.shape >> 8) + 1;
                check_burst(p, aw.address, beats, aw.shape >> 2 & 7, aw.shape & 3);
                port.writes.push_back(Burst{aw.address, beats, 0, kOkay});
            }
            if (wants_write) {
                WriteBeat beat;
                memcpy(beat.data, wdata + 4 * p, kBeat);
                beat.strobe = static_cast<uint16_t>(field(wstrb, p, 16));
                beat.last = bit(wlast, p);
                uint8_t payload[kBeat + 3];
                memcpy(payload, beat.data, kBeat);
                memcpy(payload + kBeat, &beat.strobe, 2);
                payload[kBeat + 2] = beat.last;
                hold(p, port.w, true, port.wready, payload, sizeof payload, "W changed before WREADY");
                if (port.wready) {
                    port.write_beats.push_back(beat);
                    ++ddr.write_beats;
                }
            } else {
                if (port.w.valid) violate(p, "WVALID fell before WREADY");
                port.w.valid = false;
                if (port.wready) ddr.credit += kBeat;  // promised, not used
            }
            serve_read(p, port, bit(rready, p));
            serve_write(port, p, wants_write, bit(bready, p));
            port.arready = static_cast<int64_t>(port.reads.size()) < ddr.outstanding && !hangs() && !stalled();
            port.awready = static_cast<int64_t>(port.writes.size() + port.responses.size()) < ddr.outstanding && !hangs() && !stalled();
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
