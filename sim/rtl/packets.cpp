// The other ends of the accelerator's AXI4-Stream ports, behind DPI-C: packets to send, packets that came.
//
// `tb.sv` calls packets_clock() once a clock with both ports' signals; what it answers is registered. Python (in the simulator's
// process) queues and fetches packets through ctypes.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "svdpi.h"

namespace {

constexpr size_t kBeat = 16;
using Packet = std::vector<uint8_t>;

struct Transfer {
    uint8_t data[kBeat] = {};
    uint16_t keep = 0;
    bool last = false;
};

bool same(const Transfer& a, const Transfer& b) {
    return memcmp(a.data, b.data, kBeat) == 0 && a.keep == b.keep && a.last == b.last;
}

struct Packets {
    std::deque<Packet> to_send, received;
    size_t sent = 0;   // bytes of the first packet that were taken
    Packet coming;     // the packet that is not whole yet
    Transfer offered;  // to s_axis, while `valid`
    bool valid = false, ready = false;
    bool waiting = false;  // m_axis offered what was not taken
    Transfer waited;
    int64_t stall = 0;
    uint64_t random = 1, clock = 0;
    std::string violation;
} ends;

bool stalled() {  // xorshift64*
    ends.random ^= ends.random >> 12;
    ends.random ^= ends.random << 25;
    ends.random ^= ends.random >> 27;
    return static_cast<int64_t>((ends.random * 0x2545F4914F6CDD1DULL) >> 56) < ends.stall;
}

void violate(const char* what) {
    char text[120];
    snprintf(text, sizeof text, "m_axis, clock %llu: %s", static_cast<unsigned long long>(ends.clock), what);
    if (ends.violation.empty()) ends.violation = text;
}

void offer() {
    const Packet& packet = ends.to_send.front();
    size_t left = packet.size() - ends.sent, bytes = left < kBeat ? left : kBeat;
    ends.offered = Transfer();
    memcpy(ends.offered.data, packet.data() + ends.sent, bytes);
    ends.offered.keep = static_cast<uint16_t>((1u << bytes) - 1);
    ends.offered.last = bytes == left;
    ends.valid = true;
}

void taken() {
    ends.valid = false;
    ends.sent += kBeat;
    if (!ends.offered.last) return;
    ends.to_send.pop_front();
    ends.sent = 0;
}

void receive(const Transfer& transfer) {
    for (size_t i = 0; i < kBeat; ++i) {
        if (transfer.keep >> i & 1) ends.coming.push_back(transfer.data[i]);
    }
    if (!transfer.last) return;
    ends.received.push_back(ends.coming);
    ends.coming.clear();
}

}  // namespace

extern "C" {

// Queues a packet, of one byte at least.
void packets_send(const uint8_t* data, uint64_t bytes) { ends.to_send.emplace_back(data, data + bytes); }

// Bytes queued and not taken.
uint64_t packets_unsent() {
    uint64_t bytes = 0;
    for (const Packet& packet : ends.to_send) bytes += packet.size();
    return bytes - ends.sent;
}

// Bytes of the oldest whole packet that came, -1: there is none.
int64_t packets_waiting() { return ends.received.empty() ? -1 : static_cast<int64_t>(ends.received.front().size()); }

// Copies the oldest whole packet and forgets it.
void packets_take(uint8_t* to) {
    memcpy(to, ends.received.front().data(), ends.received.front().size());
    ends.received.pop_front();
}

void packets_drop_sent() {
    ends.to_send.clear();
    ends.sent = 0;
    ends.valid = false;
}

void packets_drop_received() {
    ends.received.clear();
    ends.coming.clear();
}

// How often, in 256ths, either end holds back at random.
void packets_stall(int64_t stall) { ends.stall = stall; }

// The first breach of the AXI4-Stream protocol, or "".
const char* packets_violation() { return ends.violation.c_str(); }

// One clock of both ports: inputs are what the accelerator shows at the edge, outputs what the ends show after it. A soft reset
// may take a transfer back.
void packets_clock(svBit reset_n, svBit soft_reset, svBit s_tready, svBit m_tvalid, const svBitVecVal* m_tdata, const svBitVecVal* m_tkeep,
                   svBit m_tlast, svBit* s_tvalid, svBitVecVal* s_tdata, svBitVecVal* s_tkeep, svBit* s_tlast, svBit* m_tready) {
    ++ends.clock;
    if (!reset_n) {
        packets_drop_sent();
        packets_drop_received();
        ends.ready = ends.waiting = false;
    } else {
        if (ends.valid && s_tready) taken();
        if (!ends.valid && !ends.to_send.empty() && !stalled()) offer();
        Transfer shown;
        memcpy(shown.data, m_tdata, kBeat);
        shown.keep = static_cast<uint16_t>(*m_tkeep);
        shown.last = m_tlast;
        if (ends.waiting && !soft_reset && (!m_tvalid || !same(shown, ends.waited))) violate("a transfer changed or went before it was taken");
        if (m_tvalid && ends.ready) receive(shown);
        ends.waiting = m_tvalid && !ends.ready;
        ends.waited = shown;
        ends.ready = !stalled();
    }
    *s_tvalid = ends.valid;
    memcpy(s_tdata, ends.offered.data, kBeat);
    *s_tkeep = ends.offered.keep;
    *s_tlast = ends.offered.last;
    *m_tready = ends.ready;
}

}  // extern "C"
