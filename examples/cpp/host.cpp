// A bare-metal style host for the accelerator in one file: registers through a volatile pointer, DDR through a pointer.
//
//     g++ -std=c++17 -O2 -Wall -Wextra -o host host.cpp
//     ./host MODEL REGISTERS DDR DDR_ADDRESS < input.f32 > output.f32
//
// MODEL is the folder into which `unzip` has unpacked a .cnna: one piece on the accelerator with one input and one output, then at
// most a change of shape.
// REGISTERS and DDR are files that are mapped: on Linux a UIO device, or what virtual.py makes in place of a board. DDR_ADDRESS is the
// bus address of the first byte of DDR. The input is one batch of float32 [N, C, H, W]; the output has the same form. `Accelerator`
// and everything above it use no operating system: give them your own two pointers. docs/artifact.md is the manifest,
// docs/registers.md the registers.
#include <algorithm>
#include <atomic>
#include <cmath>
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

// --- tensors in DDR: the ports of the manifest ---

// A tensor [C, H, W] of a batch, and where its bytes lie in a segment.
struct Port {
    int64_t channels, height, width, offset, image_bytes, block_bytes, row_bytes, zero;
    float scale;
    // an input whose pixels hold several pixels of the image; of another port one pixel
    int64_t folded_channels, folded_height, folded_width, step[2] = {1, 1}, span[2] = {1, 1}, before[2] = {0, 0};

    explicit Port(const Json &entry)
        : channels(entry["shape"].at(0)), height(entry["shape"].at(1)), width(entry["shape"].at(2)), offset(entry["offset"]),
          image_bytes(entry["image_bytes"]), block_bytes(entry["block_bytes"]), row_bytes(entry["row_bytes"]), zero(entry["zero"]),
          scale(static_cast<float>(entry["scale"].number)), folded_channels(channels), folded_height(height), folded_width(width) {
        auto fold = entry.members.find("fold");
        if (fold == entry.members.end() || fold->second.members.empty()) return;
        const Json &how = fold->second;
        folded_channels = how["shape"].at(0), folded_height = how["shape"].at(1), folded_width = how["shape"].at(2);
        for (size_t axis : {0, 1}) step[axis] = how["step"].at(axis), span[axis] = how["span"].at(axis), before[axis] = how["before"].at(axis);
    }

    // The byte of a channel at a pixel. Words hold `ci` channels; the words of a row follow one another.
    int64_t place(int64_t ci, int64_t image, int64_t channel, int64_t y, int64_t x) const {
        return offset + image * image_bytes + channel / ci * block_bytes + y * row_bytes + x * ci + channel % ci;
    }
};

// clamp(round_half_even(x / scale) + zero), as ONNX QuantizeLinear has it
static int8_t quantised(const Port &port, float x) {
    float q = std::nearbyintf(x / port.scale) + static_cast<float>(port.zero);
    return static_cast<int8_t>(std::min(127.0f, std::max(-128.0f, q)));
}

static void pack(const Port &port, int64_t ci, int64_t batch, const float *x, uint8_t *segment) {
    std::memset(segment + port.offset, static_cast<int>(port.zero), static_cast<size_t>(batch * port.image_bytes));
    for (int64_t n = 0; n < batch; ++n)
        for (int64_t k = 0; k < port.folded_channels; ++k)
            for (int64_t p = 0; p < port.folded_height; ++p)
                for (int64_t q = 0; q < port.folded_width; ++q) {
                    int64_t within = k / port.channels, c = k % port.channels;
                    int64_t y = p * port.step[0] - port.before[0] + within / port.span[1];
                    int64_t at = q * port.step[1] - port.before[1] + within % port.span[1];
                    if (y < 0 || y >= port.height || at < 0 || at >= port.width) continue;
                    float value = x[((n * port.channels + c) * port.height + y) * port.width + at];
                    segment[port.place(ci, n, k, p, q)] = static_cast<uint8_t>(quantised(port, value));
                }
}

static void unpack(const Port &port, int64_t ci, int64_t batch, const uint8_t *segment, float *y) {
    for (int64_t n = 0; n < batch; ++n)
        for (int64_t c = 0; c < port.channels; ++c)
            for (int64_t row = 0; row < port.height; ++row)
                for (int64_t x = 0; x < port.width; ++x) {
                    auto q = static_cast<int8_t>(segment[port.place(ci, n, c, row, x)]);
                    *y++ = static_cast<float>(q - port.zero) * port.scale;
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

static void run(const std::string &folder, const std::string &registers_path, const std::string &ddr_path, uint64_t address) {
    Bytes text = file(folder + "/manifest.json");
    Json manifest = JsonReader(std::string(text.begin(), text.end())).value();
    if (static_cast<int64_t>(manifest["schema"]) != 5) fail("the manifest has another schema than 5");
    const Json &piece = manifest["pieces"].at(0);
    if (piece["kind"].text != "accelerator") fail("the model begins on the CPU, with " + piece["operators"].at(0)["op"].text);
    for (size_t later = 1; later < manifest["pieces"].items.size(); ++later) check_moves_nothing(manifest["pieces"].at(later));
    if (piece["inputs"].items.size() != 1 || piece["outputs"].items.size() != 1) fail("the model has several inputs or outputs");
    Port in(piece["inputs"].at(0)), out(piece["outputs"].at(0));
    int64_t ci = manifest["config"]["ci"], batch = manifest["batch"];

    size_t register_bytes = 4096, ddr_bytes = 64 << 20;
    auto *registers = reinterpret_cast<volatile uint32_t *>(mapped(registers_path, register_bytes));
    uint8_t *ddr = mapped(ddr_path, ddr_bytes);
    Accelerator accelerator(registers, ddr, address, ddr_bytes);
    accelerator.check(manifest["config"]);
    accelerator.make_idle();
    accelerator.place(piece, file(folder + "/piece0.constants.bin"), file(folder + "/piece0.program.bin"));

    std::vector<float> x(static_cast<size_t>(batch * in.channels * in.height * in.width));
    std::vector<float> y(static_cast<size_t>(batch * out.channels * out.height * out.width));
    bool first = true;
    size_t bytes, whole = x.size() * sizeof(float);
    while ((bytes = std::fread(x.data(), 1, whole, stdin)) == whole) {
        if (!first) accelerator.make_idle();
        first = false;
        pack(in, ci, batch, x.data(), accelerator.input);
        accelerator.run();
        unpack(out, ci, batch, accelerator.output, y.data());
        if (std::fwrite(y.data(), sizeof(float), y.size(), stdout) != y.size()) fail("the answer cannot be written");
        std::fprintf(stderr, "%u clocks\n", accelerator.cycles());
    }
    if (bytes) fail("the input ends after " + std::to_string(bytes) + " of the " + std::to_string(whole) + " bytes of a batch");
    if (std::fflush(stdout)) fail("the answer cannot be written");
}

int main(int count, char **arguments) {
    try {
        if (count != 5) fail("usage: host MODEL REGISTERS DDR DDR_ADDRESS < input.f32 > output.f32");
        run(arguments[1], arguments[2], arguments[3], std::strtoull(arguments[4], nullptr, 0));
    } catch (const std::exception &error) {
        std::fprintf(stderr, "host: %s\n", error.what());
        return 1;
    }
}
