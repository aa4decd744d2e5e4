// A model's pieces, in their order: programs on the accelerator, and ONNX models on the CPU (docs/pieces.md).
//
// The accelerator takes a whole batch. A piece on the CPU runs sample by sample, because it may mix the samples of a batch.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "accelerator.h"
#include "onnxruntime.h"

inline bool is_view(const std::string &op) {
    static const std::set<std::string> views = {"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"};
    return views.count(op) > 0;
}

// Gives a tensor the shape that a view makes of it. sizes: of its second input; axes may be an attribute in older models.
inline Shape viewed(const Json &entry, const Shape &from, const std::vector<int64_t> *second) {
    const std::string &op = entry["op"].text;
    const Json &attributes = entry["attributes"];
    auto attribute = [&](const char *name, int64_t otherwise) {
        return attributes.find(name) ? static_cast<int64_t>(attributes[name]) : otherwise;
    };
    const int64_t rank = static_cast<int64_t>(from.size());
    if (op == "Identity") return from;
    if (op == "Flatten") {
        int64_t axis = attribute("axis", 1);
        axis = std::min(std::max<int64_t>(axis < 0 ? axis + rank : axis, 0), rank);
        const Shape front(from.begin(), from.begin() + axis), back(from.begin() + axis, from.end());
        return {static_cast<int64_t>(elements_of(front)), static_cast<int64_t>(elements_of(back))};
    }
    std::vector<int64_t> axes = second ? *second : attributes.find("axes") ? attributes["axes"].numbers() : std::vector<int64_t>();
    Shape made;
    if (op == "Reshape") {
        Shape known;
        int64_t open = -1;
        for (size_t axis = 0; axis < axes.size(); ++axis) {
            const int64_t size = axes[axis] == 0 && !attribute("allowzero", 0) ? (axis < from.size() ? from[axis] : 0) : axes[axis];
            made.push_back(size);
            if (size < 0)
                open = static_cast<int64_t>(axis);
            else
                known.push_back(size);
        }
        const size_t others = elements_of(known);
        if (open >= 0) made[static_cast<size_t>(open)] = others ? static_cast<int64_t>(elements_of(from) / others) : 0;
    } else {
        const int64_t final_rank = op == "Unsqueeze" ? rank + static_cast<int64_t>(axes.size()) : rank;
        for (int64_t &axis : axes) axis = axis < 0 ? axis + final_rank : axis;
        const std::set<int64_t> chosen(axes.begin(), axes.end());
        size_t next = 0;
        for (int64_t axis = 0; axis < final_rank; ++axis) {
            const bool one = op == "Unsqueeze" ? chosen.count(axis) > 0 : false;
            if (one) {
                made.push_back(1);
                continue;
            }
            if (next >= from.size()) fail(op + " of the manifest does not fit its input");
            const int64_t size = from[next++];
            const bool dropped = op == "Squeeze" && (axes.empty() ? size == 1 : chosen.count(axis) > 0);
            if (!dropped) made.push_back(size);
        }
    }
    if (elements_of(made) != elements_of(from)) fail(op + " of the manifest does not fit its input, " + told(from));
    return made;
}

// Softmax along an axis, by the host library, whose answers are those of the Python host to the bit.
inline Tensor softmaxed(const Tensor &given, int64_t axis) {
    const Tensor x = given.as_float();
    const int64_t rank = static_cast<int64_t>(x.shape.size());
    axis = axis < 0 ? axis + rank : axis;
    if (axis < 0 || axis >= rank) fail("Softmax of the manifest does not fit its input, " + told(x.shape));
    Tensor made(FLOAT32, x.shape);
    if (x.data.empty()) return made;
    const size_t count = static_cast<size_t>(x.shape[static_cast<size_t>(axis)]);
    const size_t inner = elements_of(Shape(x.shape.begin() + axis + 1, x.shape.end())), rows = x.elements() / count;
    std::vector<float> row(x.elements()), answer(x.elements());
    auto from = reinterpret_cast<const float *>(x.data.data());
    auto place = [&](size_t number, size_t index) { return (number / inner * count + index) * inner + number % inner; };
    for (size_t number = 0; number < rows; ++number)
        for (size_t index = 0; index < count; ++index) row[number * count + index] = from[place(number, index)];
    check(cnna_softmax(row.data(), rows, count, answer.data()), "softmax");
    auto to = reinterpret_cast<float *>(made.data.data());
    for (size_t number = 0; number < rows; ++number)
        for (size_t index = 0; index < count; ++index) to[place(number, index)] = answer[number * count + index];
    return made;
}

// A piece on the CPU. Changes of shape and Softmax are done here, everything else by onnxruntime.
class CpuPiece {
  public:
    // number: in the model; wanted: the tensors that the user or a later piece reads.
    CpuPiece(const Json &entry, size_t number, std::vector<std::string> wanted, const Onnxruntime &library, const std::function<Bytes()> &model)
        : entry_(entry), wanted_(std::move(wanted)) {
        bool own = static_cast<int64_t>(entry["numpy"]) != 0;
        std::set<std::string> operators;
        for (const Json &one : entry["operators"].items) {
            own = own && (is_view(one["op"].text) || one["op"].text == "Softmax");
            operators.insert(one["op"].text);
        }
        std::string names;
        for (const std::string &name : operators) names += (names.empty() ? "" : ", ") + name;
        called_ = "piece " + std::to_string(number) + " (" + names + ")";
        if (own) return;
        if (!library.there())
            fail(called_ + " runs on the CPU and needs onnxruntime: " + library.why +
                 "; install it, or name its library with --onnxruntime LIBONNXRUNTIME.SO");
        const Bytes read = model();
        named([&] { return model_ = std::make_unique<OnnxModel>(library, read), Tensors(); });
    }

    // The tensors that it reads; some may be its own.
    std::vector<std::string> reads() const {
        if (model_) return model_->inputs;
        std::vector<std::string> found;
        for (const Json &one : entry_["operators"].items)
            for (const std::string &name : one["inputs"].texts()) found.push_back(name);
        return found;
    }

    // What it makes of one sample.
    Tensors run(Tensors known) const {
        return named([&] { return made_of(known); });
    }

  private:
    // Calls a function. Its errors name the piece.
    Tensors named(const std::function<Tensors()> &called) const {
        try {
            return called();
        } catch (const std::runtime_error &error) {
            fail(called_ + ": " + error.what());
        }
    }

    Tensors made_of(Tensors &known) const {
        if (model_) return model_->run(known, wanted_);
        for (const Json &one : entry_["operators"].items) {
            const std::vector<std::string> inputs = one["inputs"].texts();
            if (inputs.empty() || !known.count(inputs[0])) fail("no piece makes what " + one["op"].text + " reads");
            const Tensor &x = known.at(inputs[0]);
            Tensor made;
            if (one["op"].text == "Softmax") {
                made = softmaxed(x, one["attributes"].find("axis") ? static_cast<int64_t>(one["attributes"]["axis"]) : -1);
            } else {
                std::vector<int64_t> second;
                const Json *constant = inputs.size() > 1 ? one["constants"].find(inputs[1].c_str()) : nullptr;
                if (constant) {
                    second = (*constant)["values"].numbers();
                } else if (inputs.size() > 1 && known.count(inputs[1]) && known.at(inputs[1]).type == INT64) {
                    const Tensor &sizes = known.at(inputs[1]);
                    second.resize(sizes.elements());
                    if (!second.empty()) std::memcpy(second.data(), sizes.data.data(), sizes.data.size());
                }
                made = x;
                made.shape = viewed(one, x.shape, inputs.size() > 1 && !inputs[1].empty() ? &second : nullptr);
            }
            known[one["outputs"].at(0).text] = made;
        }
        Tensors found;
        for (const std::string &name : wanted_) found[name] = known.at(name);
        return found;
    }

    const Json &entry_;
    std::string called_;
    std::vector<std::string> wanted_;
    std::unique_ptr<OnnxModel> model_;
};

// A piece on the accelerator, placed in its memory.
struct ProgramPiece {
    std::vector<Program> slots;  // the same program, each with an input and an output of its own
    std::vector<Port> inputs, outputs;
};

// A batch on its way. whole: tensors that have all samples in the first axis. made: for each sample, what the CPU made of it.
struct Flight {
    Tensors whole;
    std::vector<Tensors> made;

    // Those of the named tensors that are known, of one sample.
    Tensors sample(size_t number, const std::vector<std::string> &names) const {
        Tensors found;
        for (const std::string &name : names) {
            auto own = made[number].find(name);
            auto shared = whole.find(name);
            if (own != made[number].end())
                found[name] = own->second;
            else if (shared != whole.end())
                found[name] = shared->second.sample(number);
        }
        return found;
    }

    // All samples of a tensor, one after the other.
    Tensor all(const std::string &name) const {
        auto known = whole.find(name);
        if (known != whole.end()) return known->second;
        Tensor joined;
        for (const Tensors &one : made) {
            auto found = one.find(name);
            if (found == one.end()) fail("no piece makes the tensor " + name);
            joined.type = found->second.type, joined.shape = found->second.shape;
            joined.data.insert(joined.data.end(), found->second.data.begin(), found->second.data.end());
        }
        joined.shape.insert(joined.shape.begin(), static_cast<int64_t>(made.size()));
        return joined;
    }
};
