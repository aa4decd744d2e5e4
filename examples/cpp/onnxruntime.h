// onnxruntime for pieces on the CPU, found while the program runs: neither its header nor its library is needed to build.
//
// Only what is called here is declared: the places of these functions in the table of its C interface, which stays as it is from
// version to version and only grows. Sessions have the options that cnna.spec.cpu_ops gives them, so that the answers are the same.
// With CNNA_NO_ONNXRUNTIME, for programs without dlopen, nothing of it is there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tensor.h"

#ifndef CNNA_NO_ONNXRUNTIME
#include <dlfcn.h>

// The library, and the environment that all sessions share.
class Onnxruntime {
  public:
    // path: the library's; empty: where the system looks for it.
    explicit Onnxruntime(const std::string &path) {
        std::vector<std::string> names = {"libonnxruntime.so", "libonnxruntime.so.1"};
        if (!path.empty()) names = {path};
        for (const std::string &name : names)
            if (!handle_) handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!handle_) {
            const char *said = dlerror();
            why = path.empty() ? "libonnxruntime.so is not found" : said ? said : path + " cannot be loaded";
            return;
        }
        struct Base {
            const void *const *(*api)(uint32_t);
            const char *(*version)();
        };
        auto base = reinterpret_cast<const Base *(*)()>(dlsym(handle_, "OrtGetApiBase"));
        table_ = base ? base()->api(API_VERSION) : nullptr;
        if (!table_) {
            why = (path.empty() ? "libonnxruntime.so" : path) + " has no C interface of version " + std::to_string(API_VERSION);
            return;
        }
        constexpr int FATAL = 4;  // severity: an error is raised, so it need not be printed as well
        check(call<3>(FATAL, "cnna", &environment));
        constexpr int DEVICE_ALLOCATOR = 0, DEFAULT_MEMORY = 0;
        check(call<69>(DEVICE_ALLOCATOR, DEFAULT_MEMORY, &memory));
        check(call<78>(&allocator));
    }
    ~Onnxruntime() {
        if (memory) release<94>(memory);
        if (environment) release<92>(environment);  // the library stays loaded: its threads may still end
    }
    Onnxruntime(const Onnxruntime &) = delete;
    Onnxruntime &operator=(const Onnxruntime &) = delete;

    bool there() const { return table_ && environment; }

    // Calls the function at a place of the table. It answers with a status, which is null where all is well.
    template <size_t place, typename... Arguments>
    void *call(Arguments... arguments) const {
        return reinterpret_cast<void *(*)(Arguments...)>(const_cast<void *>(table_[place]))(arguments...);
    }
    template <size_t place>
    void release(void *object) const {
        reinterpret_cast<void (*)(void *)>(const_cast<void *>(table_[place]))(object);
    }
    void check(void *status) const {
        if (!status) return;
        std::string said = reinterpret_cast<const char *(*)(const void *)>(const_cast<void *>(table_[2]))(status);
        release<93>(status);
        for (char &letter : said)
            if (letter == '\n') letter = ' ';
        fail("onnxruntime: " + said.substr(0, 300));
    }

    std::string why;  // it is not there
    void *environment = nullptr, *memory = nullptr, *allocator = nullptr;

  private:
    static constexpr uint32_t API_VERSION = 6;  // of 2020
    void *handle_ = nullptr;
    const void *const *table_ = nullptr;
};

// One ONNX model, ready to run. Errors of onnxruntime are raised with its own words.
class OnnxModel {
  public:
    OnnxModel(const Onnxruntime &library, const Bytes &model) : library_(library) {
        void *options = nullptr;
        library_.check(library_.call<10>(&options));
        std::unique_ptr<void, std::function<void(void *)>> kept(options, [this](void *object) { library_.release<100>(object); });
        constexpr int FATAL = 4;
        library_.check(library_.call<22>(options, FATAL));
        library_.check(library_.call<130>(options, "session.disable_quant_qdq", "1"));
        library_.check(library_.call<130>(options, "optimization.disable_specified_optimizers",
            "ReluQuantRewrite;ClipQuantRewrite;DoubleQDQPairsRemover;Pad_Fusion;TransposeOptimizer;TransposeOptimizer_CPUExecutionProvider"));
        library_.check(library_.call<8>(library_.environment, static_cast<const void *>(model.data()), model.size(), options, &session_));
        size_t count = 0;
        library_.check(library_.call<30>(session_, &count));
        for (size_t number = 0; number < count; ++number) {
            char *name = nullptr;
            library_.check(library_.call<36>(session_, number, library_.allocator, &name));
            inputs.push_back(name);
            library_.check(library_.call<76>(library_.allocator, static_cast<void *>(name)));
        }
    }
    ~OnnxModel() {
        if (session_) library_.release<95>(session_);
    }
    OnnxModel(const OnnxModel &) = delete;
    OnnxModel &operator=(const OnnxModel &) = delete;

    // The wanted outputs for one sample.
    Tensors run(Tensors &known, const std::vector<std::string> &wanted) const {
        std::vector<const char *> names, outputs;
        Values given(library_, inputs.size()), made(library_, wanted.size());
        for (size_t number = 0; number < inputs.size(); ++number) {
            auto found = known.find(inputs[number]);
            if (found == known.end()) fail("no piece makes the tensor " + inputs[number] + ", which a piece on the CPU reads");
            Tensor &x = found->second;
            names.push_back(inputs[number].c_str());
            static char nothing[16];  // a tensor without elements has an address too
            void *data = x.data.empty() ? static_cast<void *>(nothing) : x.data.data();
            library_.check(library_.call<49>(library_.memory, data, x.data.size(), x.shape.data(), x.shape.size(),
                static_cast<int>(x.type), &given.values[number]));
        }
        for (const std::string &name : wanted) outputs.push_back(name.c_str());
        library_.check(library_.call<9>(session_, static_cast<void *>(nullptr), names.data(), given.values.data(), names.size(), outputs.data(),
            outputs.size(), made.values.data()));
        Tensors found;
        for (size_t number = 0; number < wanted.size(); ++number) found[wanted[number]] = taken(made.values[number], wanted[number]);
        return found;
    }

    std::vector<std::string> inputs;

  private:
    struct Values {
        Values(const Onnxruntime &library_, size_t count) : library(library_), values(count) {}
        ~Values() {
            for (void *value : values)
                if (value) library.release<96>(value);
        }
        Values(const Values &) = delete;
        Values &operator=(const Values &) = delete;
        const Onnxruntime &library;
        std::vector<void *> values;
    };

    Tensor taken(void *value, const std::string &name) const {
        int is_tensor = 0;
        library_.check(library_.call<50>(value, &is_tensor));
        if (!is_tensor) fail("output " + name + " is no tensor");
        void *info = nullptr;
        library_.check(library_.call<65>(value, &info));
        std::unique_ptr<void, std::function<void(void *)>> kept(info, [this](void *object) { library_.release<99>(object); });
        int type = 0;
        size_t axes = 0;
        library_.check(library_.call<60>(info, &type));
        library_.check(library_.call<61>(info, &axes));
        Shape shape(axes);
        library_.check(library_.call<62>(info, shape.data(), axes));
        Tensor made(entry_of(type).type, shape);
        void *data = nullptr;
        library_.check(library_.call<51>(value, &data));
        if (!made.data.empty()) std::memcpy(made.data.data(), data, made.data.size());
        return made;
    }

    const Onnxruntime &library_;
    void *session_ = nullptr;
};
#else
class Onnxruntime {
  public:
    explicit Onnxruntime(const std::string &) {}
    bool there() const { return false; }
    std::string why = "this program was built without it (CNNA_NO_ONNXRUNTIME)";
};

class OnnxModel {
  public:
    OnnxModel(const Onnxruntime &, const Bytes &) {}
    std::vector<std::string> inputs;
    Tensors run(Tensors &, const std::vector<std::string> &) const { return {}; }
};
#endif
