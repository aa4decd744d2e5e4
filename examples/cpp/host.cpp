// A bare-metal style host for the accelerator: registers through a volatile pointer, DDR through a pointer. The host library's kernels
// pack, unpack and find the greatest values; docs/howto/bare-metal.md has the call of the compiler.
//
//     ./host MODEL REGISTERS DDR DDR_ADDRESS [K] < input.f32 > output.f32
//
// MODEL is the folder into which `unzip` has unpacked a .cnna: one piece on the accelerator with one input and one output, then at
// most a change of shape.
// REGISTERS and DDR are files that are mapped: on Linux a UIO device, or what virtual.py makes in place of a board. DDR_ADDRESS is the
// bus address of the first byte of DDR. The input is one batch of float32 [N, C, H, W]; the output has the same form. With K, the K
// greatest values of each sample are told. `Accelerator` and everything above it use no operating system: give them your own two
// pointers. docs/artifact.md is the manifest, docs/registers.md the registers, host/native/cnna_host.h the library.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cnna_host.h"
#include "cnna_registers.h"

// The index of a register in 32-bit words: the header's struct is packed, and a compiler may access its members byte by byte.
#define CNNA_AT(name) (offsetof(cnna_t, name) / 4)

using Bytes = std::vector<uint8_t>;

[[noreturn]] static void fail(const std::string &message) { throw std::runtime_error(message); }

// --- JSON, as much of it as a manifest has ---

struct Json {
    double number = 0;  // also true, false and null
    std::string text;
    std::vector<Json> items;
    std::map<std::string, Json> members;

    const Json &operator[](const char *name) const {
        auto found = members.find(name);
        if (found == members.end()) fail(std::string("the manifest has no entry ") + name);
        return found->second;
    }
    const Json &at(size_t index) const { return items.at(index); }
    operator int64_t() const { return static_cast<int64_t>(number); }
};

class JsonReader {
  public:
    explicit JsonReader(const std::string &text) : at_(text.c_str()) {}

    Json value() {
        Json made;
        switch (peek()) {
        case '{':
            for (char before = next(); before != '}'; before = next()) {
                if (peek() == '}') continue;  // there are no more
                std::string name = string();
                if (next() != ':') fail("the manifest is no JSON: no colon");
                made.members[name] = value();
            }
            break;
        case '[':
            for (char before = next(); before != ']'; before = next())
                if (peek() != ']') made.items.push_back(value());
            break;
        case '"': made.text = string(); break;
        case 't': at_ += 4, made.number = 1; break;
        case 'f': at_ += 5; break;
        case 'n': at_ += 4; break;
        default: {
            char *end;
            made.number = std::strtod(at_, &end);
            if (end == at_) fail("the manifest is no JSON");
            at_ = end;
        }
        }
        return made;
    }

  private:
    char peek() { return at_ += std::strspn(at_, " \t\r\n"), *at_; }
    char next() { return peek() ? *at_++ : (fail("the manifest ends too early"), '\0'); }
    std::string string() {
        std::string made;
        if (next() != '"') fail("the manifest is no JSON: no name");
        for (; *at_ && *at_ != '"'; ++at_) made += *at_ == '\\' ? *++at_ : *at_;  // \uXXXX stays as it is: no name that we use has one
        return ++at_, made;
    }
    const char *at_;
};

// --- tensors in DDR: the ports of the manifest, as the host library takes them ---

// A tensor [C, H, W] of a batch. `as`: where its bytes lie from `offset` of its segment on, and what a folded pixel holds.
struct Port {
    cnna_port as{};
    int64_t shape[3], batch;
    size_t offset, bytes;

    Port(const Json &entry, int64_t ci, int64_t batch_)
        : batch(batch_), offset(static_cast<size_t>(static_cast<int64_t>(entry["offset"]))) {
        for (size_t axis : {0, 1, 2}) as.folded[axis] = shape[axis] = entry["shape"].at(axis);
        as.ci = ci, as.zero = entry["zero"], as.scale = static_cast<float>(entry["scale"].number);
        as.image_bytes = entry["image_bytes"], as.block_bytes = entry["block_bytes"], as.row_bytes = entry["row_bytes"];
        bytes = static_cast<size_t>(batch * as.image_bytes);
        for (size_t axis : {0, 1}) as.step[axis] = as.span[axis] = 1;
        auto fold = entry.members.find("fold");
        if (fold == entry.members.end() || fold->second.members.empty()) return;
        const Json &how = fold->second;
        for (size_t axis : {0, 1, 2}) as.folded[axis] = how["shape"].at(axis);
        for (size_t axis : {0, 1})
            as.step[axis] = how["step"].at(axis), as.span[axis] = how["span"].at(axis), as.before[axis] = how["before"].at(axis);
    }

    size_t elements() const { return static_cast<size_t>(batch * shape[0] * shape[1] * shape[2]); }
};

static void check(int code, const char *doing) {
    if (code == CNNA_NAN) fail("the input holds NaN, for which int8 has no value");
    if (code != CNNA_OK) fail(std::string(doing) + ": code " + std::to_string(code) + " (cnna_host.h)");
}

// x: float32 [batch, C, H, W], dense. It is divided by the scale and rounded; for uint8 pictures cnna_pack takes a table.
static void pack(const Port &port, const std::vector<float> &x, uint8_t *segment) {
    const int64_t item = sizeof(float), row = port.shape[2] * item, plane = port.shape[1] * row;
    const cnna_tensor tensor = {
        x.data(), CNNA_FLOAT32, {port.batch, port.shape[0], port.shape[1], port.shape[2]}, {port.shape[0] * plane, plane, row, item}};
    check(cnna_pack(&port.as, &tensor, nullptr, port.batch, segment + port.offset, port.bytes), "packing");
}

static void unpack(const Port &port, const uint8_t *segment, std::vector<float> &y) {
    check(cnna_unpack(&port.as, segment + port.offset, port.bytes, port.batch, CNNA_FLOAT32, y.data(), y.size()), "unpacking");
}

// Says the k greatest values of each sample, and where they are.
static void say_greatest(const std::vector<float> &y, size_t samples, size_t k) {
    std::vector<float> values(samples * k);
    std::vector<int64_t> places(samples * k);
    check(cnna_top_k(y.data(), samples, y.size() / samples, k, values.data(), places.data()), "the greatest values");
    for (size_t sample = 0; sample < samples; ++sample) {
        std::fprintf(stderr, "greatest:");
        for (size_t n = sample * k; n < (sample + 1) * k; ++n)
            std::fprintf(stderr, " %lld (%g)", static_cast<long long>(places[n]), static_cast<double>(values[n]));
        std::fprintf(stderr, "\n");
    }
}

// --- the accelerator ---

class Accelerator {
  public:
    // registers: the first of them. ddr: memory that the accelerator sees at bus address `address`.
    Accelerator(volatile uint32_t *registers, uint8_t *ddr, uint64_t address, size_t ddr_bytes)
        : registers_(registers), ddr_(ddr), address_(address), left_(ddr_bytes) {
        if (read(CNNA_AT(ID)) != CNNA__ID__MAGIC_reset) fail("there is no accelerator: ID does not read CNNA");
    }

    // Compares the sizes of the array with those that the model was compiled for.
    void check(const Json &config) {
        uint32_t array = read(CNNA_AT(ARRAY));
        auto field = [array](uint32_t mask, int position) { return static_cast<int64_t>((array & mask) >> position); };
        if (field(CNNA__ARRAY__PIX_bm, CNNA__ARRAY__PIX_bp) != config["pix"] ||
            field(CNNA__ARRAY__CI_bm, CNNA__ARRAY__CI_bp) != config["ci"] ||
            field(CNNA__ARRAY__CO_bm, CNNA__ARRAY__CO_bp) != config["co"] ||
            field(CNNA__ARRAY__PORTS_bm, CNNA__ARRAY__PORTS_bp) != config["ports"])
            fail("the model was compiled for another accelerator, " + config["name"].text);
    }

    // Places a program of one piece: its constants, its writes, and room for workspace, input and output.
    void place(const Json &piece, const Bytes &constants, const Bytes &program) {
        const Json &segments = piece["segments"];
        segment(CNNA_AT(SEG_CONSTANT_LO), CNNA_AT(SEG_CONSTANT_BYTES), constants.size(), &constants);
        segment(CNNA_AT(SEG_WORKSPACE_LO), CNNA_AT(SEG_WORKSPACE_BYTES), segments["workspace"], nullptr);
        input = segment(CNNA_AT(SEG_INPUT_LO), CNNA_AT(SEG_INPUT_BYTES), segments["input"], nullptr);
        output = segment(CNNA_AT(SEG_OUTPUT_LO), CNNA_AT(SEG_OUTPUT_BYTES), segments["output"], nullptr);
        segment(CNNA_AT(PROG_BASE_LO), 0, program.size(), &program);
        write(CNNA_AT(PROG_COUNT), static_cast<uint32_t>(program.size() / 8));
    }

    // An accelerator that has run, or runs, is reset: after that STATUS reads 0. Call it before memory is written.
    void make_idle() {
        if (read(CNNA_AT(STATUS)) == 0) return;
        write(CNNA_AT(CTRL), CNNA__CTRL__SOFT_RESET_bm);
        while (read(CNNA_AT(STATUS)) != 0) {}
    }

    // Runs the program once. Where DDR is cached, flush what was written before, and invalidate `output` after.
    void run() {
        std::atomic_thread_fence(std::memory_order_seq_cst);  // input and program are in DDR before the start
        write(CNNA_AT(CTRL), CNNA__CTRL__START_bm);
        uint32_t status;
        do status = read(CNNA_AT(STATUS));
        while (!(status & (CNNA__STATUS__DONE_bm | CNNA__STATUS__ERROR_bm)));
        if (status & CNNA__STATUS__ERROR_bm)
            fail("the accelerator stopped: cause " + std::to_string(read(CNNA_AT(ERROR)) & CNNA__ERROR__CAUSE_bm) + " at write " +
                 std::to_string(read(CNNA_AT(PC))) + " (docs/registers.md, Numbers)");
        std::atomic_thread_fence(std::memory_order_seq_cst);
    }

    uint32_t cycles() { return read(CNNA_AT(CYCLES)); }

    uint8_t *input = nullptr, *output = nullptr;

  private:
    uint32_t read(size_t index) { return registers_[index]; }
    void write(size_t index, uint32_t word) { registers_[index] = word; }

    // Takes the next 4096-byte aligned memory, and tells the accelerator its address and, in whole beats, its size.
    uint8_t *segment(size_t low, size_t size_register, size_t bytes, const Bytes *content) {
        size_t whole = std::max<size_t>(16, (bytes + 15) / 16 * 16), taken = (whole + 4095) / 4096 * 4096;
        if (taken > left_) fail("the model does not fit into DDR");
        uint8_t *memory = ddr_;
        write(low, static_cast<uint32_t>(address_)), write(low + 1, static_cast<uint32_t>(address_ >> 32));
        if (size_register) write(size_register, static_cast<uint32_t>(whole));
        if (content) std::memcpy(memory, content->data(), bytes);
        ddr_ += taken, address_ += taken, left_ -= taken;
        return memory;
    }

    volatile uint32_t *registers_;
    uint8_t *ddr_;
    uint64_t address_;
    size_t left_;
};

// --- a program for Linux around it ---

static Bytes file(const std::string &path) {
    std::ifstream stream(path, std::ios::binary);
    if (!stream) fail(path + " cannot be read");
    return Bytes(std::istreambuf_iterator<char>(stream), {});
}

static uint8_t *mapped(const std::string &path, size_t &bytes) {
    int handle = open(path.c_str(), O_RDWR | O_SYNC);
    struct stat found;
    if (handle < 0 || fstat(handle, &found)) fail(path + " cannot be opened");
    if (found.st_size) bytes = static_cast<size_t>(found.st_size);  // a device has no size
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
    if (memory == MAP_FAILED) fail(path + " cannot be mapped");
    return static_cast<uint8_t *>(memory);
}

// A piece on the CPU behind the accelerator may only give the answer another shape: its elements stay as they are.
static void check_moves_nothing(const Json &piece) {
    const std::set<std::string> views = {"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"};
    if (piece["kind"].text != "cpu") fail("the model has several pieces on the accelerator");
    for (const Json &one : piece["operators"].items)
        if (!views.count(one["op"].text)) fail("the model ends on the CPU, with " + one["op"].text + " (cnna explain says why)");
}

static void run(
    const std::string &folder, const std::string &registers_path, const std::string &ddr_path, uint64_t address, size_t greatest) {
    Bytes text = file(folder + "/manifest.json");
    Json manifest = JsonReader(std::string(text.begin(), text.end())).value();
    if (static_cast<int64_t>(manifest["schema"]) != 5) fail("the manifest has another schema than 5");
    const Json &piece = manifest["pieces"].at(0);
    if (piece["kind"].text != "accelerator") fail("the model begins on the CPU, with " + piece["operators"].at(0)["op"].text);
    for (size_t later = 1; later < manifest["pieces"].items.size(); ++later) check_moves_nothing(manifest["pieces"].at(later));
    if (piece["inputs"].items.size() != 1 || piece["outputs"].items.size() != 1) fail("the model has several inputs or outputs");
    int64_t ci = manifest["config"]["ci"], batch = manifest["batch"];
    Port in(piece["inputs"].at(0), ci, batch), out(piece["outputs"].at(0), ci, batch);

    size_t register_bytes = 4096, ddr_bytes = 64 << 20;
    auto *registers = reinterpret_cast<volatile uint32_t *>(mapped(registers_path, register_bytes));
    uint8_t *ddr = mapped(ddr_path, ddr_bytes);
    Accelerator accelerator(registers, ddr, address, ddr_bytes);
    accelerator.check(manifest["config"]);
    accelerator.make_idle();
    accelerator.place(piece, file(folder + "/piece0.constants.bin"), file(folder + "/piece0.program.bin"));

    std::vector<float> x(in.elements()), y(out.elements());
    if (greatest > y.size() / static_cast<size_t>(batch)) fail("K is more than a sample of the answer has values");
    bool first = true;
    size_t bytes, whole = x.size() * sizeof(float);
    while ((bytes = std::fread(x.data(), 1, whole, stdin)) == whole) {
        if (!first) accelerator.make_idle();
        first = false;
        pack(in, x, accelerator.input);
        accelerator.run();
        unpack(out, accelerator.output, y);
        if (std::fwrite(y.data(), sizeof(float), y.size(), stdout) != y.size()) fail("the answer cannot be written");
        if (const uint32_t clocks = accelerator.cycles())
            std::fprintf(stderr, "%u clocks\n", clocks);
        else
            std::fprintf(stderr, "a batch is answered; this accelerator counts no clocks, as an emulator does\n");
        if (greatest) say_greatest(y, static_cast<size_t>(batch), greatest);
    }
    if (first && !bytes) fail("the input is empty: give batches of " + std::to_string(whole) + " bytes of float32");
    if (bytes) fail("the input ends after " + std::to_string(bytes) + " of the " + std::to_string(whole) + " bytes of a batch");
    if (std::fflush(stdout)) fail("the answer cannot be written");
}

int main(int count, char **arguments) {
    try {
        if (count != 5 && count != 6) fail("usage: host MODEL REGISTERS DDR DDR_ADDRESS [K] < input.f32 > output.f32");
        const size_t greatest = count == 6 ? std::strtoull(arguments[5], nullptr, 0) : 0;
        run(arguments[1], arguments[2], arguments[3], std::strtoull(arguments[4], nullptr, 0), greatest);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "host: %s\n", error.what());
        return 1;
    }
}
