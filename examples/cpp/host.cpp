// A bare-metal style host for any artifact: programs run on the accelerator, pieces on the CPU in onnxruntime, if it is installed.
//
//     ./host [--onnxruntime LIB] MODEL REGISTERS DDR DDR_ADDRESS [K] < input.raw > output.raw
//
// MODEL is the folder into which `unzip` has unpacked a .cnna. REGISTERS and DDR are files that are mapped: on Linux a UIO device, or
// what virtual.py makes in place of a board. DDR_ADDRESS is the bus address of the first byte of DDR.
//
// The input is one batch after the other. A batch is each input of the model, in the manifest's order: as many samples as the batch
// has, of float32, or of the model's own integers. The output has each output of the model for each batch, joined as
// docs/artifact.md says; where its size depends on the data, a line says it for each sample. With K, the K greatest values of each
// sample are told.
//
// `Accelerator` and what it includes use no operating system: give them your own two pointers. json.h reads the manifest, tensor.h has
// the tensors, onnxruntime.h finds onnxruntime, and pieces.h takes a batch through the model.
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iterator>
#include <new>
#include <optional>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pieces.h"

static Bytes file(const std::string &path) {
    std::ifstream stream(path, std::ios::binary);
    struct stat found;
    if (!stream || stat(path.c_str(), &found) || S_ISDIR(found.st_mode)) fail(path + " cannot be read");
    return Bytes(std::istreambuf_iterator<char>(stream), {});
}

// A file of a piece. Where it is not as long as the manifest says, the folder is no whole artifact: weights would be zeros.
static Bytes member(const Json &manifest, const std::string &folder, const std::string &name) {
    Bytes found = file(folder + "/" + name);
    const int64_t wanted = manifest["members"][name.c_str()]["bytes"];
    if (static_cast<int64_t>(found.size()) != wanted)
        fail(folder + "/" + name + " has " + std::to_string(found.size()) + " bytes, but " + std::to_string(wanted) +
             " by the manifest: unpack the .cnna again");
    return found;
}

// bytes: of a device, which has no size; then those that are there. least: a file must have so many.
static uint8_t *mapped(const std::string &path, size_t &bytes, size_t least) {
    int handle = open(path.c_str(), O_RDWR | O_SYNC);
    struct stat found;
    if (handle < 0 || fstat(handle, &found)) fail(path + " cannot be opened");
    if (S_ISREG(found.st_mode) && found.st_size < static_cast<off_t>(least))
        fail(path + " has " + std::to_string(found.st_size) + " bytes; " + std::to_string(least) + " are needed at least");
    if (found.st_size) bytes = static_cast<size_t>(found.st_size);
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
    if (memory == MAP_FAILED) fail(path + " cannot be mapped");
    return static_cast<uint8_t *>(memory);
}

// Says the k greatest values of each sample, and where they are.
static void say_greatest(const Tensor &answer, size_t samples, size_t k) {
    auto y = reinterpret_cast<const float *>(answer.data.data());
    std::vector<float> values(samples * k);
    std::vector<int64_t> places(samples * k);
    check(cnna_top_k(y, samples, answer.elements() / samples, k, values.data(), places.data()), "the greatest values");
    for (size_t sample = 0; sample < samples; ++sample) {
        std::fprintf(stderr, "greatest:");
        for (size_t n = sample * k; n < (sample + 1) * k; ++n)
            std::fprintf(stderr, " %lld (%g)", static_cast<long long>(places[n]), static_cast<double>(values[n]));
        std::fprintf(stderr, "\n");
    }
}

// A model, ready to run.
class Model {
  public:
    Model(const std::string &folder, const Json &manifest, const Onnxruntime &library) : manifest_(manifest), batch_(manifest["batch"]) {
        if (batch_ < 1 || batch_ > 1 << 20) fail("the manifest has an impossible batch");
        const std::vector<Json> &pieces = manifest["pieces"].items;
        for (size_t number = 0; number < pieces.size(); ++number) {
            const std::string name = "piece" + std::to_string(number) + ".onnx";
            steps_.emplace_back();
            if (pieces[number]["kind"].text == "cpu")
                steps_.back().cpu =
                    std::make_unique<CpuPiece>(pieces[number], number, wanted(number), library, [&] { return member(manifest, folder, name); });
        }
    }

    bool has_programs() const {
        return std::any_of(steps_.begin(), steps_.end(), [](const Step &step) { return !step.cpu; });
    }

    // Places all programs in the accelerator's memory. Where one program is all that a batch needs, as many batches may be open as runs
    // may be on the accelerator.
    void place(const std::string &folder, Accelerator &accelerator) {
        const int64_t ci = manifest_["config"]["ci"];
        if (std::count_if(steps_.begin(), steps_.end(), [](const Step &step) { return !step.cpu; }) == 1) most_ = accelerator.slots();
        for (size_t number = 0; number < steps_.size(); ++number) {
            if (steps_[number].cpu) continue;
            const Json &piece = manifest_["pieces"].at(number);
            const std::string name = "piece" + std::to_string(number);
            ProgramPiece &made = steps_[number].program;
            made.slots = accelerator.place(piece, member(manifest_, folder, name + ".constants.bin"), member(manifest_, folder, name + ".program.bin"), most_);
            for (const Json &port : piece["inputs"].items) made.inputs.emplace_back(port, ci, batch_, piece["segments"]["input"]);
            for (const Json &port : piece["outputs"].items) made.outputs.emplace_back(port, ci, batch_, piece["segments"]["output"]);
        }
        accelerator_ = &accelerator;
    }

    // The inputs of one batch, without their contents.
    std::vector<std::pair<std::string, Tensor>> inputs() const {
        std::vector<std::pair<std::string, Tensor>> found;
        for (const Json &entry : manifest_["model_inputs"].items) {
            Shape shape = {batch_};
            for (const Json &size : entry["shape"].items) {
                if (size.kind != Json::NUMBER) fail("input " + entry["name"].text + " has a size that is not fixed");
                shape.push_back(size);
            }
            found.emplace_back(entry["name"].text, Tensor(given_type(entry["dtype"].text), shape));
        }
        return found;
    }

    // Batches that may be open: begun, and not ended.
    size_t most() const { return most_; }
    size_t open() const { return open_.size(); }

    // Takes a batch to its first program, and starts that.
    void begin(const std::vector<std::pair<std::string, Tensor>> &given) {
        Open &one = open_.emplace_back();
        for (const auto &input : given) one.flight.whole[input.first] = input.second;
        one.flight.made.resize(static_cast<size_t>(batch_));
        one.slot = begun_++ % most_;
        go_on(one);
    }

    // Takes the batch that was begun first through all that is left, and gives it. clocks: of all programs; none where one of them
    // is not known, and 0 on an accelerator that counts none.
    Flight end(std::optional<uint64_t> &clocks) {
        Open &one = open_.front();
        clocks = 0;
        while (one.step < steps_.size()) {
            const ProgramPiece &piece = steps_[one.step++].program;
            accelerator_->wait();
            bool known;
            const uint32_t found = accelerator_->cycles(known);
            clocks = clocks && known ? std::optional<uint64_t>(*clocks + found) : std::nullopt;
            for (const Port &port : piece.outputs)
                one.flight.whole[port.name] = unpack(port, piece.slots[one.slot].output, type_of(port.name));
            go_on(one);
        }
        Flight ended = std::move(one.flight);
        open_.pop_front();
        return ended;
    }

    // The answers to a batch: one tensor for each output, or one for each sample where its size depends on the data.
    std::vector<std::pair<std::string, Tensor>> answers(const Flight &flight) const {
        std::vector<std::pair<std::string, Tensor>> found;
        for (const Json &entry : manifest_["model_outputs"].items) {
            std::vector<Tensor> apart;
            for (size_t number = 0; number < flight.made.size(); ++number) apart.push_back(answer(entry, flight.sample(number, {entry["name"].text})));
            if (apart.size() > 1 && is_open(entry))
                for (size_t number = 0; number < apart.size(); ++number)
                    found.emplace_back(entry["name"].text + "." + std::to_string(number), std::move(apart[number]));
            else
                found.emplace_back(entry["name"].text, apart.size() == 1 ? apart[0] : joined(apart, entry.find("batch_axis")));
        }
        return found;
    }

    // Whether the size of an answer depends on the data.
    static bool is_open(const Json &entry) {
        const Json *shape = entry.find("shape");
        return !shape || std::any_of(shape->items.begin(), shape->items.end(), [](const Json &size) { return size.kind != Json::NUMBER; });
    }

    bool any_open() const {
        const std::vector<Json> &outputs = manifest_["model_outputs"].items;
        return std::any_of(outputs.begin(), outputs.end(), is_open);
    }

    size_t batch() const { return static_cast<size_t>(batch_); }

  private:
    struct Step {
        ProgramPiece program;
        std::unique_ptr<CpuPiece> cpu;  // null: a program
    };

    struct Open {
        Flight flight;
        size_t step = 0, slot = 0;  // step: of the program that was started
    };

    // Runs the pieces on the CPU that come next, and starts the program behind them, if there is one.
    void go_on(Open &one) {
        for (; one.step < steps_.size() && steps_[one.step].cpu; ++one.step) {
            const CpuPiece &piece = *steps_[one.step].cpu;
            std::vector<Tensors> made;
            for (size_t number = 0; number < one.flight.made.size(); ++number) made.push_back(piece.run(one.flight.sample(number, piece.reads())));
            for (size_t number = 0; number < made.size(); ++number)
                for (auto &tensor : made[number]) one.flight.made[number][tensor.first] = std::move(tensor.second);
        }
        if (one.step == steps_.size()) return;
        const ProgramPiece &piece = steps_[one.step].program;
        const Program &program = piece.slots[one.slot];
        if (accelerator_->slots() == 1) accelerator_->make_idle();
        for (const Port &port : piece.inputs) pack(port, one.flight.all(port.name), program.input);
        accelerator_->start(program);
    }

    // The tensors that a piece makes, and that the user or a later piece reads.
    std::vector<std::string> wanted(size_t number) const {
        const std::vector<Json> &pieces = manifest_["pieces"].items;
        std::set<std::string> read;
        for (const Json &output : manifest_["model_outputs"].items) read.insert(output["name"].text);
        for (size_t later = number + 1; later < pieces.size(); ++later) {
            const bool cpu = pieces[later]["kind"].text == "cpu";
            for (const Json &one : pieces[later][cpu ? "operators" : "inputs"].items)
                for (const std::string &name : cpu ? one["inputs"].texts() : std::vector<std::string>{one["name"].text}) read.insert(name);
        }
        std::vector<std::string> found;
        for (const Json &one : pieces[number]["operators"].items)
            for (const std::string &name : one["outputs"].texts())
                if (!name.empty() && read.count(name)) found.push_back(name);
        return found;
    }

    // In which type the user gets a tensor: its own if it is an output of integers.
    Type type_of(const std::string &name) const {
        for (const Json &output : manifest_["model_outputs"].items)
            if (output["name"].text == name) return given_type(output["dtype"].text);
        return FLOAT32;
    }

    // An output for one sample, in its own shape and type.
    static Tensor answer(const Json &entry, const Tensors &known) {
        auto found = known.find(entry["name"].text);
        if (found == known.end()) fail("no piece makes the output " + entry["name"].text);
        const Type type = given_type(entry["dtype"].text);
        Tensor made = type == FLOAT32 ? found->second.as_float() : found->second;
        if (made.type != type) fail("output " + entry["name"].text + " has another type than the manifest says");
        if (!is_open(entry)) {
            const Shape shape = entry["shape"].numbers();
            if (elements_of(shape) != made.elements())
                fail("output " + entry["name"].text + " has shape " + told(made.shape) + ", not " + told(shape));
            made.shape = shape;
        }
        return made;
    }

    // The answers to several samples, along an axis or on a new first one.
    static Tensor joined(const std::vector<Tensor> &apart, const Json *batch_axis) {
        const int64_t axis = batch_axis ? static_cast<int64_t>(*batch_axis) : 0;
        Shape shape = apart[0].shape;
        if (!batch_axis) shape.insert(shape.begin(), 1);
        if (axis < 0 || axis >= static_cast<int64_t>(shape.size())) fail("the manifest has an axis of the batch that is not there");
        const size_t outer = elements_of(Shape(shape.begin(), shape.begin() + axis)), block = apart[0].data.size() / std::max<size_t>(outer, 1);
        shape[static_cast<size_t>(axis)] *= static_cast<int64_t>(apart.size());
        Tensor made(apart[0].type, shape);
        uint8_t *to = made.data.data();
        for (size_t row = 0; row < outer; ++row)
            for (const Tensor &one : apart)
                if (block) std::memcpy(to, one.data.data() + row * block, block), to += block;
        return made;
    }

    const Json &manifest_;
    int64_t batch_;
    std::deque<Step> steps_;
    std::deque<Open> open_;  // in the order in which they were begun
    size_t most_ = 1, begun_ = 0;
    Accelerator *accelerator_ = nullptr;
};

struct Options {
    std::string onnxruntime;
    std::vector<std::string> words;  // MODEL REGISTERS DDR DDR_ADDRESS [K]
};

static uint64_t number(const std::string &text, const char *what) {
    char *end;
    errno = 0;
    const uint64_t made = std::strtoull(text.c_str(), &end, 0);
    if (text.empty() || !std::isdigit(static_cast<unsigned char>(text[0])) || *end) fail(std::string(what) + " " + text + " is no number");
    if (errno) fail(std::string(what) + " " + text + " is too great");
    return made;
}

static Options options(int count, char **arguments) {
    Options made;
    for (int index = 1; index < count; ++index) {
        const std::string word = arguments[index];
        if (word == "--onnxruntime" && index + 1 < count)
            made.onnxruntime = arguments[++index];
        else
            made.words.push_back(word);
    }
    if (made.words.size() != 4 && made.words.size() != 5)
        fail("usage: host [--onnxruntime LIB] MODEL REGISTERS DDR DDR_ADDRESS [K] < input.raw > output.raw");
    return made;
}

// Reads one batch. Answers with the bytes that were there: all of them, or fewer at the end of the input.
static size_t read_batch(std::vector<std::pair<std::string, Tensor>> &inputs) {
    size_t found = 0;
    for (auto &one : inputs) {
        const size_t now = std::fread(one.second.data.data(), 1, one.second.data.size(), stdin);
        found += now;
        if (now < one.second.data.size()) break;
    }
    return found;
}

// Whether a read of the input would find bytes, or its end, without waiting: an answer must not wait for the next batch.
static bool more_is_there() {
    pollfd input = {STDIN_FILENO, POLLIN, 0};
    return poll(&input, 1, 0) != 0;
}

static bool all_float(const std::vector<std::pair<std::string, Tensor>> &inputs) {
    return std::all_of(inputs.begin(), inputs.end(), [](const auto &one) { return one.second.type == FLOAT32; });
}

static void say(const Model &model, std::optional<uint64_t> clocks) {
    if (!model.has_programs())
        std::fprintf(stderr, "a batch is answered, by the CPU alone\n");
    else if (!clocks)
        std::fprintf(stderr, "a batch is answered; the next run had ended before its clocks were read\n");
    else if (*clocks)
        std::fprintf(stderr, "%llu clocks\n", static_cast<unsigned long long>(*clocks));
    else
        std::fprintf(stderr, "a batch is answered; this accelerator counts no clocks, as an emulator does\n");
}

static void write(const Model &model, const std::vector<std::pair<std::string, Tensor>> &answers) {
    for (const auto &one : answers) {
        const Tensor &y = one.second;
        if (model.any_open()) std::fprintf(stderr, "output %s: %s %s\n", one.first.c_str(), entry_of(y.type).name, told(y.shape).c_str());
        if (std::fwrite(y.data.data(), 1, y.data.size(), stdout) != y.data.size()) fail("the answer cannot be written");
    }
    if (std::fflush(stdout)) fail("the answer cannot be written");
}

// Ends the batch that was begun first, and answers it. greatest: values of each sample that are told.
static void answer(Model &model, size_t greatest) {
    std::optional<uint64_t> clocks;
    const auto answers = model.answers(model.end(clocks));
    const bool one = answers.size() == 1 && answers[0].second.type == FLOAT32;
    if (greatest && (!one || greatest > answers[0].second.elements() / model.batch()))
        fail(one ? "K is more than a sample of the answer has values" : "K needs a model with one output of float32");
    write(model, answers);
    say(model, clocks);
    if (greatest) say_greatest(answers[0].second, model.batch(), greatest);
}

static void run(const Options &given) {
    const std::string &folder = given.words[0];
    Bytes text = file(folder + "/manifest.json");
    const Json manifest = JsonReader(std::string(text.begin(), text.end())).value();
    if (static_cast<int64_t>(manifest["schema"]) != 5) fail("the manifest has another schema than 5");
    const uint64_t address = number(given.words[3], "DDR_ADDRESS"), greatest = given.words.size() == 5 ? number(given.words[4], "K") : 0;
    const Onnxruntime library(given.onnxruntime);
    Model model(folder, manifest, library);
    if (address % 4096) fail("DDR_ADDRESS " + given.words[3] + " is no multiple of 4096, as the accelerator's segments need");

    std::unique_ptr<Accelerator> accelerator;
    if (model.has_programs()) {
        size_t register_bytes = 4096, ddr_bytes = 64 << 20;
        auto *registers = reinterpret_cast<volatile uint32_t *>(mapped(given.words[1], register_bytes, register_bytes));
        uint8_t *ddr = mapped(given.words[2], ddr_bytes, 4096);
        accelerator = std::make_unique<Accelerator>(registers, ddr, address, ddr_bytes);
        accelerator->check(manifest["config"]);
        accelerator->make_idle();
        model.place(folder, *accelerator);
    }
    setvbuf(stdin, nullptr, _IONBF, 0);  // so that `more_is_there` sees all that is
    auto inputs = model.inputs();
    size_t bytes, whole = 0;
    for (const auto &one : inputs) whole += one.second.data.size();
    if (!whole) fail("the model has no input with values");
    bool first = true;
    do {
        bytes = read_batch(inputs);
        if (bytes == whole) model.begin(inputs), first = false;
        while (model.open() && (bytes < whole || model.open() == model.most() || !more_is_there())) answer(model, greatest);
    } while (bytes == whole);
    if (first && !bytes)
        fail("the input is empty: give batches of " + std::to_string(whole) + " bytes" + (all_float(inputs) ? " of float32" : ""));
    if (bytes) fail("the input ends after " + std::to_string(bytes) + " of the " + std::to_string(whole) + " bytes of a batch");
}

int main(int count, char **arguments) {
    try {
        run(options(count, arguments));
    } catch (const std::bad_alloc &) {
        std::fprintf(stderr, "host: there is no memory left\n");
        return 1;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "host: %s\n", error.what());
        return 1;
    }
}
