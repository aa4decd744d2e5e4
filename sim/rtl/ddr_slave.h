// Up to four AXI4 slaves of 16-byte beats on one memory: they move the data, check the protocol, strike with faults and keep a log.
//
// A ready is promised a clock ahead. When a command or beat is taken, and when an answer is there, the road decides (`ddr_road.h`).

#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ddr_road.h"

constexpr uint64_t kPage = 4096;
constexpr int kOkay = 0, kDecerr = 3;

struct Burst {
    uint64_t address;
    unsigned beats;
    int response;
};

struct WriteBeat {
    uint8_t data[kBeat];
    uint16_t strobe;
    bool last;
};

struct Address {  // what AR or AW shows
    bool valid;
    uint64_t address, length, size, kind;
};

struct FromMaster {
    Address ar, aw;
    bool wvalid, rready, bready;
    WriteBeat w;
};

struct Held {  // what the master drove and had not yet been taken: it must not change
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

struct Slave {
    uint8_t* memory = nullptr;
    uint64_t base = 0, bytes = 0;
    int64_t stall = 0, hang_after = -1;
    uint64_t random = 1;
    uint64_t clock = 0, read_beats = 0, write_beats = 0;
    Port ports[kPorts];
    std::unique_ptr<Road> road;
    std::vector<Fault> faults;
    std::vector<Written> log;
    bool logging = false;
    std::string violation;

    explicit Slave(std::unique_ptr<Road> first) : road(std::move(first)) {}

    // Whether no port has anything under way.
    bool idle() const {
        for (const Port& port : ports) {
            if (!port.reads.empty() || !port.writes.empty() || !port.responses.empty() || !port.write_beats.empty()) return false;
            if (port.rvalid || port.bvalid || port.wready) return false;
        }
        return true;
    }

    // One clock of a port, after the road's `begin_clock`.
    void clock_port(int index, const FromMaster& in) {
        Port& port = ports[index];
        take_address(index, port.ar, in.ar, port.arready, "AR changed or fell before ARREADY");
        take_address(index, port.aw, in.aw, port.awready, "AW changed or fell before AWREADY");
        if (in.ar.valid && port.arready) take_read(index, in.ar);
        if (in.aw.valid && port.awready) take_write(index, in.aw);
        take_beat(index, in);
        serve_read(index, in.rready);
        serve_write(index, in.wvalid, in.bready);
        port.arready = road->room_for_read(index) && !hangs() && !stalled();
        port.awready = road->room_for_write(index) && !hangs() && !stalled();
    }

    void reset_port(int index) {
        ports[index] = Port();
        road->reset_port(index);
    }

  private:
    uint32_t draw() {  // xorshift64*
        random ^= random >> 12;
        random ^= random << 25;
        random ^= random >> 27;
        return static_cast<uint32_t>((random * 0x2545F4914F6CDD1DULL) >> 32);
    }

    bool stalled() { return stall > 0 && static_cast<int64_t>(draw() & 255) < stall; }

    bool hangs() const { return hang_after >= 0 && read_beats + write_beats >= static_cast<uint64_t>(hang_after); }

    void violate(int port, const char* what) {
        if (!violation.empty()) return;
        char text[160];
        snprintf(text, sizeof text, "port %d, clock %llu: %s", port, static_cast<unsigned long long>(clock), what);
        violation = text;
    }

    // A master must hold valid and payload until ready: checks it and remembers for the next clock.
    void hold(int port, Held& held, bool valid, bool ready, const void* payload, size_t size, const char* what) {
        if (held.valid && (!valid || memcmp(held.payload, payload, size) != 0)) violate(port, what);
        held.valid = valid && !ready;
        if (held.valid) memcpy(held.payload, payload, size);
    }

    void take_address(int port, Held& held, const Address& in, bool ready, const char* what) {
        uint64_t payload[2] = {0, 0};
        if (in.valid) {
            payload[0] = in.address;
            payload[1] = in.length << 8 | in.size << 2 | in.kind;
        }
        hold(port, held, in.valid, ready, payload, sizeof payload, what);
    }

    void check_burst(int port, const Address& in) {
        if (in.size != 4 || in.kind != 1) violate(port, "a burst that is not incrementing in beats of 16 bytes");
        if (in.address % kBeat) violate(port, "a burst address that is no multiple of 16");
        if (in.address / kPage != (in.address + (in.length + 1) * kBeat - 1) / kPage) violate(port, "a burst across a 4 KiB boundary");
    }

    void take_read(int index, const Address& in) {
        check_burst(index, in);
        unsigned beats = static_cast<unsigned>(in.length) + 1;
        ports[index].reads.push_back(Burst{in.address, beats, kOkay});
        road->read_taken(index, in.address, beats);
    }

    void take_write(int index, const Address& in) {
        check_burst(index, in);
        unsigned beats = static_cast<unsigned>(in.length) + 1;
        ports[index].writes.push_back(Burst{in.address, beats, kOkay});
        road->write_taken(index, in.address, beats);
    }

    void take_beat(int index, const FromMaster& in) {
        Port& port = ports[index];
        if (!in.wvalid) {
            if (port.w.valid) violate(index, "WVALID fell before WREADY");
            port.w.valid = false;
            if (port.wready) road->beat_missed(index);
            return;
        }
        uint8_t payload[kBeat + 3];
        memcpy(payload, in.w.data, kBeat);
        memcpy(payload + kBeat, &in.w.strobe, 2);
        payload[kBeat + 2] = in.w.last;
        hold(index, port.w, true, port.wready, payload, sizeof payload, "W changed before WREADY");
        if (!port.wready) return;
        port.write_beats.push_back(in.w);
        ++write_beats;
        road->beat_taken(index);
    }

    int respond(int port, bool write, uint64_t address) {
        for (Fault& fault : faults) {
            if (fault.write != write || (fault.port >= 0 && fault.port != port)) continue;
            if (address < fault.low || address >= fault.high || fault.times == 0) continue;
            if (fault.skip > 0) {
                --fault.skip;
                continue;
            }
            if (fault.times > 0) --fault.times;
            return fault.response;
        }
        return address >= base && address + kBeat <= base + bytes ? kOkay : kDecerr;
    }

    void serve_read(int index, bool rready) {
        Port& port = ports[index];
        if (port.rvalid && !rready) return;
        port.rvalid = false;
        if (!road->read_ready(index) || hangs() || stalled() || !road->spend(index)) return;
        Burst& burst = port.reads.front();
        port.rresp = respond(index, false, burst.address);
        if (port.rresp == kOkay) {
            memcpy(port.rdata, memory + (burst.address - base), kBeat);
        } else {
            memset(port.rdata, 0, kBeat);
        }
        burst.address += kBeat;
        port.rlast = --burst.beats == 0;
        if (port.rlast) port.reads.pop_front();
        port.rvalid = true;
        ++read_beats;
        road->beat_given(index, port.rlast);
    }

    void write_beat(int index, Burst& burst, const WriteBeat& beat) {
        int response = respond(index, true, burst.address);
        if (response != kOkay && burst.response == kOkay) burst.response = response;
        if (response == kOkay) {
            uint8_t* to = memory + (burst.address - base);
            for (unsigned i = 0; i < kBeat; ++i) {
                if (beat.strobe >> i & 1) to[i] = beat.data[i];
            }
            if (logging) {
                Written entry{clock, burst.address, {}, beat.strobe};
                memcpy(entry.data, beat.data, kBeat);
                log.push_back(entry);
            }
        }
        burst.address += kBeat;
        if (beat.last != (--burst.beats == 0)) violate(index, "WLAST is not on the last beat");
        road->beat_written(index, burst.beats == 0);
    }

    void serve_write(int index, bool wvalid, bool bready) {
        Port& port = ports[index];
        while (!port.write_beats.empty() && !port.writes.empty()) {
            Burst& burst = port.writes.front();
            write_beat(index, burst, port.write_beats.front());
            port.write_beats.pop_front();
            if (burst.beats == 0) {
                port.responses.push_back(burst);
                port.writes.pop_front();
            }
        }
        port.wready = wvalid && road->room_for_beat(index) && !hangs() && !stalled() && road->spend(index);
        if (port.bvalid && !bready) return;
        port.bvalid = false;
        if (port.responses.empty() || !road->response_ready(index) || hangs() || stalled()) return;
        port.bresp = port.responses.front().response;
        port.bvalid = true;
        port.responses.pop_front();
        road->response_given(index);
    }
};
