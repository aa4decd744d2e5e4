/* What counter.cpp needs of QEMU's plugin interface, version 1, for machines whose QEMU comes without its header.
 *
 * SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
 */
#ifndef CNNA_PLUGIN_INTERFACE_H
#define CNNA_PLUGIN_INTERFACE_H

#include <cstddef>
#include <cstdint>

extern "C" {

constexpr int INTERFACE_VERSION = 1;

typedef uint64_t PluginId;
typedef uint32_t MemoryInfo;
struct Block;        // a run of guest instructions that QEMU has translated
struct Instruction;  // one of them
enum RegisterUse { NO_REGISTERS = 0 };
enum MemoryUse { READS_AND_WRITES = 3 };

typedef void (*BlockTranslated)(PluginId, Block *);
typedef void (*Executed)(unsigned vcpu, void *data);
typedef void (*Accessed)(unsigned vcpu, MemoryInfo, uint64_t address, void *data);
typedef void (*Called)(PluginId, unsigned vcpu, int64_t number, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                       uint64_t, uint64_t);
typedef void (*Ended)(PluginId, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(PluginId, BlockTranslated);
void qemu_plugin_register_vcpu_tb_exec_cb(Block *, Executed, RegisterUse, void *data);
void qemu_plugin_register_vcpu_mem_cb(Instruction *, Accessed, RegisterUse, MemoryUse, void *data);
void qemu_plugin_register_vcpu_syscall_cb(PluginId, Called);
void qemu_plugin_register_atexit_cb(PluginId, Ended, void *data);

size_t qemu_plugin_tb_n_insns(const Block *);
uint64_t qemu_plugin_tb_vaddr(const Block *);
Instruction *qemu_plugin_tb_get_insn(const Block *, size_t index);
const void *qemu_plugin_insn_data(const Instruction *);
size_t qemu_plugin_insn_size(const Instruction *);
unsigned qemu_plugin_mem_size_shift(MemoryInfo);
bool qemu_plugin_mem_is_store(MemoryInfo);
}

#endif
