// Tensors of the host: what a user gives, what the accelerator and the pieces on the CPU make.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "json.h"

using Bytes = std::vector<uint8_t>;
using Shape = std::vector<int64_t>;

// Numbers of ONNX's own types (TensorProto.DataType), by the names that a manifest has.
enum Type {
    FLOAT32 = 1, UINT8 = 2, INT8 = 3, UINT16 = 4, INT16 = 5, INT32 = 6, INT64 = 7, BOOL = 9, FLOAT16 = 10, FLOAT64 = 11, UINT32 = 12,
    UINT64 = 13
};

struct TypeEntry {
    Type type;
    const char *name;
    size_t bytes;
};
static const TypeEntry TYPES[] = {
    {FLOAT32, "float32", 4}, {UINT8, "uint8", 1}, {INT8, "int8", 1}, {UINT16, "uint16", 2}, {INT16, "int16", 2}, {INT32, "int32", 4},
    {INT64, "int64", 8}, {BOOL, "bool", 1}, {FLOAT16, "float16", 2}, {FLOAT64, "float64", 8}, {UINT32, "uint32", 4}, {UINT64, "uint64", 8}};

inline const TypeEntry &entry_of(int type) {
    for (const TypeEntry &entry : TYPES)
        if (entry.type == type) return entry;
    fail("a piece on the CPU makes a tensor of ONNX's type " + std::to_string(type) + ", which this host does not know");
}

// The type in which a model's input or output is taken and given: its own where it is an integer or bool, else float32.
inline Type given_type(const std::string &dtype) {
    for (const TypeEntry &entry : TYPES)
        if (dtype == entry.name && dtype.compare(0, 5, "float")) return entry.type;
    return FLOAT32;
}

inline size_t elements_of(const Shape &shape) {
    size_t found = 1;
    for (int64_t size : shape) {
        if (size < 0 || (size && found > SIZE_MAX / 16 / static_cast<size_t>(size))) fail("a tensor has an impossible size");
        found *= static_cast<size_t>(size);
    }
    return found;
}

inline std::string told(const Shape &shape) {
    std::string made;
    for (int64_t size : shape) made += (made.empty() ? "" : ", ") + std::to_string(size);
    return "[" + made + "]";
}

struct Tensor {
    Type type = FLOAT32;
    Shape shape;
    Bytes data;

    Tensor() = default;
    Tensor(Type type_, Shape shape_) : type(type_), shape(std::move(shape_)), data(elements_of(shape) * entry_of(type).bytes) {}
    size_t elements() const { return elements_of(shape); }
    size_t item() const { return entry_of(type).bytes; }

    // One sample of a tensor that has all samples in its first axis: [1, ...].
    Tensor sample(size_t number) const {
        Shape one = shape;
        one[0] = 1;
        Tensor made(type, one);
        std::memcpy(made.data.data(), data.data() + number * made.data.size(), made.data.size());
        return made;
    }
    // The elements as float32, as numpy converts them.
    Tensor as_float() const;
};

using Tensors = std::map<std::string, Tensor>;

inline float half(uint16_t bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const float sign = bits >> 15 ? -1.0f : 1.0f;
    if (exponent == 31) return fraction ? NAN : sign * INFINITY;
    return sign * (exponent ? std::ldexp(static_cast<float>(fraction + 1024), exponent - 25) : std::ldexp(static_cast<float>(fraction), -24));
}

template <typename From>
void to_float(const Tensor &from, Tensor &to) {
    for (size_t index = 0; index < from.elements(); ++index) {
        From value;
        std::memcpy(&value, from.data.data() + index * sizeof value, sizeof value);
        const float made = static_cast<float>(value);
        std::memcpy(to.data.data() + index * sizeof made, &made, sizeof made);
    }
}

inline Tensor Tensor::as_float() const {
    if (type == FLOAT32) return *this;
    Tensor made(FLOAT32, shape);
    switch (type) {
    case FLOAT64: to_float<double>(*this, made); break;
    case INT32: to_float<int32_t>(*this, made); break;
    case INT64: to_float<int64_t>(*this, made); break;
    case UINT8: to_float<uint8_t>(*this, made); break;
    case INT8: to_float<int8_t>(*this, made); break;
    case FLOAT16:
        for (size_t index = 0; index < elements(); ++index) {
            uint16_t bits;
            std::memcpy(&bits, data.data() + 2 * index, sizeof bits);
            const float value = half(bits);
            std::memcpy(made.data.data() + 4 * index, &value, sizeof value);
        }
        break;
    default: fail(std::string("a tensor of ") + entry_of(type).name + " cannot become float32 here");
    }
    return made;
}
