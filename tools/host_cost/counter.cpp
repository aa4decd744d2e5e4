/* A plugin of qemu-aarch64 that counts, stage by stage, what a program executes: instructions, bytes read and written, system calls.
 *
 * The program says which stage begins by `isatty` of a descriptor that cannot exist (`marks.py` has the numbers): the ioctl behind it
 * reaches the plugin and no file. Stage 0 is not counted. Counters belong to a vCPU, and callbacks add to them; QEMU's inline counters
 * lose additions when several vCPUs count at once.
 *
 * The plugin is also the accelerator, as far as its registers go: a run that was started, or queued, ends at once, or as soon as the host
 * has cleared STATUS.done of the run before. So runs end one by one, as they do where they take longer than the host's work. QEMU must run
 * with a guest base of 0 (`-B 0`), so that a guest address is an address here.
 *
 * Arguments: out=FILE, and the register offsets and masks ctrl=, start=, queue=, reset=, status=, done=, finished=. The file has a line
 * for each count:
 *   instructions STAGE N | entries STAGE N | lines STAGE N | misses STAGE L1 L2 | whole STAGE INTO_L2 PAST | call STAGE NUMBER N
 *   bytes STAGE REGION read|written BYTES ACCESSES
 *   block ADDRESS WORDS... : STAGE N STAGE N ...
 * Misses are those of a model of a Cortex-A53's caches, with the least recently used line replaced and nothing fetched ahead. `whole` are
 * lines that a vCPU writes from end to end, without a fetch before: into the second cache, or past both to DDR. An A53 does so from the
 * fourth such line in a row on, and past the second cache from the 128th on (Arm DDI 0500D, 6.2.4 and 4.3.66: read allocate mode, L1RADIS,
 * RADIS). Here a line is written from end to end if no store misses another line meanwhile, and nothing loads from it: that is strict.
 *
 * SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
 */
#include "plugin_interface.h"

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace {

constexpr unsigned STAGES = 32, VCPUS = 256, CALLS = 512, REGIONS = 3, LINE_BYTES = 64;
constexpr unsigned WHOLE_L1 = 3, WHOLE_L2 = 127;  // lines in a row that still go to the first cache, and to the second
constexpr unsigned ORDINARY = 0, BUFFERS = 1, REGISTERS = 2;  // of memory
constexpr int64_t IOCTL = 29;
constexpr uint32_t DC_CVAC = 0xD50B7A20, DC_CIVAC = 0xD50B7E20, REGISTER = 31;  // instructions, and the bits of their register
constexpr uint64_t MARK = 0x5A, VALUE_BITS = 20, VALUE_MASK = (1u << VALUE_BITS) - 1;
enum Kind { SET_STAGE, SHIFT_IN, REGION_BEGIN, REGION_END, CLEAN_LINES };

struct Count {
  uint64_t instructions, entries, lines, misses[2], whole[2], bytes[REGIONS][2], accesses[REGIONS][2], calls[CALLS];
};

template <unsigned SETS, unsigned WAYS>
struct Cache {
  uint64_t lines[SETS][WAYS];  // of each set, the one used last comes first

  /* Whether the line was there; it is afterwards. */
  bool holds(uint64_t line) {
    const bool found = has(line);
    if (!found) use(line, WAYS - 1);
    return found;
  }

  /* Whether the line is there, as the one used last. */
  bool has(uint64_t line) {
    uint64_t *set = lines[line % SETS];
    for (unsigned way = 0; way < WAYS; way++)
      if (set[way] == line) return use(line, way);
    return false;
  }

  /* Puts a line first in its set, in the place of the one of a way. */
  bool use(uint64_t line, unsigned way) {
    uint64_t *set = lines[line % SETS];
    for (; way; way--) set[way] = set[way - 1];
    set[0] = line;
    return true;
  }
};

/* The line that stores have missed last: its bytes that are written, and how many lines before it were written from end to end. */
struct Open {
  uint64_t line, bytes, before;
};

struct alignas(64) Vcpu {
  Cache<128, 4> first;  // 32 KiB of data
  Open open;
  Count stages[STAGES];
};

struct Executions {
  uint64_t address;
  unsigned lines;  // of the cache that it cleans or invalidates
  std::vector<uint32_t> words;
  std::atomic<uint64_t> times[STAGES];
};

struct Region {
  std::atomic<uint64_t> begin, end;
};

Vcpu *vcpus;
Cache<1024, 16> second;  // 1 MiB for all cores
std::atomic<unsigned> stage;
Region regions[REGIONS];
std::atomic<uint64_t> shifted;
std::deque<Executions> blocks;  // grows without moving what callbacks point to
std::mutex growing;
std::string out;
uint64_t ctrl, start, queue, reset, status, done, finished;
uint32_t waiting;  // runs that have not ended

Count &own(unsigned vcpu, unsigned of) { return vcpus[vcpu % VCPUS].stages[of]; }

void executed(unsigned vcpu, void *data) {
  const unsigned now = stage.load(std::memory_order_relaxed);
  if (!now) return;
  auto &block = *static_cast<Executions *>(data);
  own(vcpu, now).instructions += block.words.size();
  own(vcpu, now).lines += block.lines;
  block.times[now].fetch_add(1, std::memory_order_relaxed);
}

uint32_t *word(uint64_t address) { return reinterpret_cast<uint32_t *>(address); }

/* The next run ends, if the host has seen the end of the one before. */
void end_run(uint64_t base) {
  if (!waiting || *word(base + status)) return;
  waiting--;
  ++*word(base + finished);
  *word(base + status) = static_cast<uint32_t>(done);
}

void written_register(uint64_t address) {
  const uint64_t base = regions[REGISTERS].begin, at = address - base;
  if (at == ctrl) {
    const uint32_t asked = *word(address);
    *word(address) = asked & ~static_cast<uint32_t>(start | queue | reset);  // pulses read 0
    if (asked & (start | reset)) waiting = 0, *word(base + status) = 0;
    if (asked & (start | queue)) waiting++;
  } else if (at == status) {
    *word(address) = 0;  // the only write is that of a one to done, which clears it
  } else {
    return;
  }
  end_run(base);
}

/* A line that the first cache lacks comes from the second, or from DDR. */
void fetched(Vcpu &own, Count &count, uint64_t line) {
  count.misses[0]++;
  count.misses[1] += !second.holds(line);
  own.first.holds(line);
}

/* The stores to a line are over. whole: they have written all of it. */
void closed(Vcpu &own, Count &count, bool whole) {
  const uint64_t line = own.open.line;
  own.open.line = 0;
  own.open.before = whole ? own.open.before + 1 : 0;
  if (own.open.before <= WHOLE_L1) return fetched(own, count, line);
  const bool past = !second.has(line) && own.open.before > WHOLE_L2;
  if (!past) second.holds(line);
  count.whole[past]++;
}

void ordinary(Vcpu &own, Count &count, bool writes, uint64_t address, unsigned size) {
  const uint64_t line = address / LINE_BYTES;
  Open &open = own.open;
  if (open.line == line) {
    if (!writes) return closed(own, count, false);
    open.bytes |= (size < LINE_BYTES ? (uint64_t{1} << size) - 1 : ~uint64_t{0}) << address % LINE_BYTES;
    if (open.bytes == ~uint64_t{0}) closed(own, count, true);
    return;
  }
  if (own.first.has(line)) return;
  if (!writes) return fetched(own, count, line);
  if (open.line) closed(own, count, false);
  open.line = line, open.bytes = 0;
  ordinary(own, count, writes, address, size);
}

void accessed(unsigned vcpu, MemoryInfo info, uint64_t address, void *) {
  unsigned region = ORDINARY;
  for (unsigned i = BUFFERS; i < REGIONS; i++)
    if (address - regions[i].begin.load(std::memory_order_relaxed) <
        regions[i].end.load(std::memory_order_relaxed) - regions[i].begin.load(std::memory_order_relaxed))
      region = i;
  const bool writes = qemu_plugin_mem_is_store(info);
  if (region == REGISTERS && writes) written_register(address);
  const unsigned now = stage.load(std::memory_order_relaxed);
  if (!now) return;
  Count &count = own(vcpu, now);
  if (region == ORDINARY) ordinary(vcpus[vcpu % VCPUS], count, writes, address, 1u << qemu_plugin_mem_size_shift(info));
  count.bytes[region][writes] += uint64_t{1} << qemu_plugin_mem_size_shift(info);
  count.accesses[region][writes]++;
}

void translated(PluginId, Block *block) {
  Executions *made;
  {
    std::lock_guard<std::mutex> lock(growing);
    made = &blocks.emplace_back();
  }
  made->address = qemu_plugin_tb_vaddr(block);
  made->lines = 0;
  const size_t count = qemu_plugin_tb_n_insns(block);
  for (size_t i = 0; i < count; i++) {
    Instruction *instruction = qemu_plugin_tb_get_insn(block, i);
    uint32_t bits = 0;
    std::memcpy(&bits, qemu_plugin_insn_data(instruction), sizeof bits);
    made->words.push_back(bits);
    made->lines += (bits & ~REGISTER) == DC_CVAC || (bits & ~REGISTER) == DC_CIVAC;
    qemu_plugin_register_vcpu_mem_cb(instruction, accessed, NO_REGISTERS, READS_AND_WRITES, nullptr);
  }
  qemu_plugin_register_vcpu_tb_exec_cb(block, executed, NO_REGISTERS, made);
}

void mark(unsigned vcpu, unsigned kind, uint64_t value) {
  const unsigned now = stage.load(std::memory_order_relaxed);
  if (kind == SET_STAGE && value < STAGES) {
    stage = static_cast<unsigned>(value);
    own(vcpu, stage).entries++;
  }
  if (kind == SHIFT_IN) shifted = shifted << VALUE_BITS | value;
  if (kind == REGION_BEGIN && value < REGIONS) regions[value].begin = shifted.exchange(0);
  if (kind == REGION_END && value < REGIONS) regions[value].end = shifted.exchange(0);
  if (kind == CLEAN_LINES) {  // a board asks the kernel for it
    own(vcpu, now).lines += value;
    own(vcpu, now).calls[IOCTL]++;
  }
}

void called(PluginId, unsigned vcpu, int64_t number, uint64_t first, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
            uint64_t) {
  if (number == IOCTL && (first & 0xFFFFFFFF) >> 24 == MARK) {
    mark(vcpu, (first >> VALUE_BITS) & 0xF, first & VALUE_MASK);
    return;
  }
  const unsigned now = stage.load(std::memory_order_relaxed);
  if (now && number >= 0 && number < CALLS) own(vcpu, now).calls[number]++;
}

void write_counts(FILE *file, unsigned of) {
  Count sum{};
  for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++) {
    const Count &count = own(vcpu, of);
    sum.instructions += count.instructions;
    sum.entries += count.entries;
    sum.lines += count.lines;
    for (unsigned level = 0; level < 2; level++) sum.misses[level] += count.misses[level], sum.whole[level] += count.whole[level];
    for (unsigned call = 0; call < CALLS; call++) sum.calls[call] += count.calls[call];
    for (unsigned region = 0; region < REGIONS; region++)
      for (unsigned writes = 0; writes < 2; writes++) {
        sum.bytes[region][writes] += count.bytes[region][writes];
        sum.accesses[region][writes] += count.accesses[region][writes];
      }
  }
  if (!sum.instructions) return;
  std::fprintf(file, "instructions %u %" PRIu64 "\nentries %u %" PRIu64 "\n", of, sum.instructions, of, sum.entries);
  std::fprintf(file, "lines %u %" PRIu64 "\nmisses %u %" PRIu64 " %" PRIu64 "\n", of, sum.lines, of, sum.misses[0], sum.misses[1]);
  std::fprintf(file, "whole %u %" PRIu64 " %" PRIu64 "\n", of, sum.whole[0], sum.whole[1]);
  for (unsigned region = 0; region < REGIONS; region++)
    for (unsigned writes = 0; writes < 2; writes++)
      std::fprintf(file, "bytes %u %u %s %" PRIu64 " %" PRIu64 "\n", of, region, writes ? "written" : "read",
                   sum.bytes[region][writes], sum.accesses[region][writes]);
  for (unsigned call = 0; call < CALLS; call++)
    if (sum.calls[call]) std::fprintf(file, "call %u %u %" PRIu64 "\n", of, call, sum.calls[call]);
}

void write_block(FILE *file, const Executions &block) {
  uint64_t all = 0;
  for (const auto &times : block.times) all += times;
  if (!all) return;
  std::fprintf(file, "block %" PRIx64, block.address);
  for (uint32_t bits : block.words) std::fprintf(file, " %08" PRIx32, bits);
  std::fprintf(file, " :");
  for (unsigned of = 0; of < STAGES; of++)
    if (block.times[of]) std::fprintf(file, " %u %" PRIu64, of, block.times[of].load());
  std::fprintf(file, "\n");
}

void ended(PluginId, void *) {
  stage = 0;
  FILE *file = std::fopen(out.c_str(), "w");
  if (!file) {
    std::perror(out.c_str());
    return;
  }
  for (unsigned of = 1; of < STAGES; of++) write_counts(file, of);
  for (const Executions &block : blocks) write_block(file, block);
  std::fclose(file);
}

bool take(const char *argument, const char *name, uint64_t &value) {
  const size_t length = std::strlen(name);
  if (std::strncmp(argument, name, length) || argument[length] != '=') return false;
  value = std::strtoull(argument + length + 1, nullptr, 0);
  return true;
}

}  // namespace

extern "C" {
extern __attribute__((visibility("default"))) int qemu_plugin_version;
int qemu_plugin_version = INTERFACE_VERSION;

__attribute__((visibility("default"))) int qemu_plugin_install(PluginId id, const void *, int count, char **arguments) {
  for (int i = 0; i < count; i++) {
    const char *argument = arguments[i];
    if (!std::strncmp(argument, "out=", 4))
      out = argument + 4;
    else if (!take(argument, "ctrl", ctrl) && !take(argument, "start", start) && !take(argument, "queue", queue) &&
             !take(argument, "reset", reset) && !take(argument, "status", status) && !take(argument, "done", done) &&
             !take(argument, "finished", finished))
      return 1;
  }
  if (out.empty()) return 1;
  vcpus = static_cast<Vcpu *>(std::calloc(VCPUS, sizeof(Vcpu)));
  if (!vcpus) return 1;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_vcpu_syscall_cb(id, called);
  qemu_plugin_register_atexit_cb(id, ended, nullptr);
  return 0;
}
}
