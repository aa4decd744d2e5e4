// Calls the native library with recorded arguments and compares what it gives with what numpy gave (test_replay.py writes the file).
//
// A record is the name of a function, then its arguments in order: each a count of bytes and these bytes, without padding. It runs
// under sanitizers, and under qemu for aarch64, where no Python is.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cnna_host.h"

using Bytes = std::vector<uint8_t>;

[[noreturn]] static void fail(const char *what, size_t record) {
    std::fprintf(stderr, "record %zu: %s\n", record, what);
    std::exit(1);
}

class Records {
  public:
    explicit Records(const char *path) {
        std::ifstream file(path, std::ios::binary);
        all_.assign(std::istreambuf_iterator<char>(file), {});
    }
    bool more() const { return at_ < all_.size(); }
    // Each in memory of its own, so that an access beyond it is found.
    Bytes next() {
        uint64_t count;
        std::memcpy(&count, all_.data() + at_, sizeof count);
        at_ += sizeof count;
        Bytes found(all_.begin() + static_cast<int64_t>(at_), all_.begin() + static_cast<int64_t>(at_ + count));
        at_ += count;
        return found;
    }
    int64_t number() { return as<int64_t>(next()); }
    template <typename Kind>
    static Kind as(const Bytes &bytes) {
        Kind made;
        std::memcpy(&made, bytes.data(), sizeof made);
        return made;
    }

  private:
    Bytes all_;
    size_t at_ = 0;
};

template <typename Kind>
void append(Bytes &to, const Kind *from, size_t elements) {
    const auto *bytes = reinterpret_cast<const uint8_t *>(from);
    to.insert(to.end(), bytes, bytes + elements * sizeof(Kind));
}

int main(int count, char **arguments) {
    if (count != 2) fail("usage: replay FILE", 0);
    Records records(arguments[1]);
    size_t record = 0;
    for (; records.more(); ++record) {
        const Bytes name = records.next();
        const std::string function(name.begin(), name.end());
        Bytes wanted, found;
        int code = CNNA_OK;
        if (function == "pack") {
            const auto port = Records::as<cnna_port>(records.next());
            auto tensor = Records::as<cnna_tensor>(records.next());
            const Bytes data = records.next(), table = records.next();
            const int64_t first = records.number(), images = records.number();
            wanted = records.next();
            found.resize(wanted.size());
            tensor.data = data.data() + first;
            const auto *lines = table.empty() ? nullptr : reinterpret_cast<const int8_t *>(table.data());
            code = cnna_pack(&port, &tensor, lines, images, found.data(), found.size());
            cnna_packer *packer = nullptr;  // what it learns of a table must not change an answer
            if (cnna_packer_open(&port, &packer) != CNNA_OK) fail("no packer", record);
            for (int again = 0; again < 3 && code == CNNA_OK && found == wanted; ++again) {
                std::fill(found.begin(), found.end(), uint8_t{1});
                code = cnna_packer_pack(packer, &tensor, lines, images, found.data(), found.size());
            }
            cnna_packer_close(packer);
        } else if (function == "unpack") {
            const auto port = Records::as<cnna_port>(records.next());
            const Bytes memory = records.next();
            const int64_t images = records.number(), type = records.number();
            wanted = records.next();
            found.resize(wanted.size());
            code = cnna_unpack(&port, memory.data(), memory.size(), images, type, found.data(),
                               found.size() / (type == CNNA_INT8 ? 1 : sizeof(float)));
        } else if (function == "softmax" || function == "top_k") {
            const Bytes data = records.next();
            const auto rows = static_cast<size_t>(records.number()), columns = static_cast<size_t>(records.number());
            const auto *x = reinterpret_cast<const float *>(data.data());
            if (function == "softmax") {
                wanted = records.next();
                found.resize(wanted.size());
                code = cnna_softmax(x, rows, columns, reinterpret_cast<float *>(found.data()));
            } else {
                const auto k = static_cast<size_t>(records.number());
                wanted = records.next();
                found.resize(wanted.size());
                std::vector<float> values(rows * k + 1);
                code = cnna_top_k(x, rows, columns, k, values.data(), reinterpret_cast<int64_t *>(found.data()));
            }
        } else if (function == "resize") {
            const Bytes picture = records.next(), how = records.next();
            const auto *size = reinterpret_cast<const int64_t *>(how.data());  // rows, columns, channels, filter, rows, columns
            wanted = records.next();
            found.resize(wanted.size());
            code = cnna_resize(picture.data(), size[0], size[1], size[2], size[1] * size[2], size[3], found.data(), size[4], size[5],
                               size[5] * size[2]);
        } else if (function == "detect") {
            const Bytes counts = records.next(), channels = records.next(), cells = records.next(), tables = records.next();
            const Bytes grids = records.next(), words = records.next(), data = records.next();
            const auto settings = Records::as<cnna_wanted>(records.next());
            wanted = records.next();
            const auto *size = reinterpret_cast<const int64_t *>(counts.data());  // labels, centre, scores, heads, tables, edges
            const auto *channel = reinterpret_cast<const int64_t *>(channels.data());
            const auto *cell = reinterpret_cast<const int64_t *>(cells.data());
            std::vector<std::vector<int8_t>> tensors;  // apart, so that an access beyond one is found
            std::vector<cnna_head> places;
            const auto *next = reinterpret_cast<const int8_t *>(data.data());
            const auto *word = reinterpret_cast<const int64_t *>(words.data());  // of each head, and then its blocks' bytes
            for (int64_t head = 0; head < size[3]; ++head) {
                const int64_t bytes = (channel[head] + word[head] - 1) / word[head] * word[size[3] + head];
                tensors.emplace_back(next, next + bytes), next += bytes;
                places.push_back({tensors.back().data(), word[head], word[size[3] + head]});
            }
            const cnna_heads heads{size[0], size[1], size[2], size[3], size[4], static_cast<int64_t>(grids.size() / sizeof(cnna_grid)), channel, cell,
                                   reinterpret_cast<const float *>(tables.data()), reinterpret_cast<const cnna_grid *>(grids.data()), {size[5], size[6]}};
            const auto most = static_cast<size_t>(settings.most);
            std::vector<float> boxes(4 * most), scores(most);
            std::vector<int64_t> labels(most);
            int64_t left = 0;
            code = cnna_detect(&heads, places.data(), &settings, boxes.data(), scores.data(), labels.data(), &left);
            append(found, boxes.data(), 4 * static_cast<size_t>(left));
            append(found, scores.data(), static_cast<size_t>(left));
            append(found, labels.data(), static_cast<size_t>(left));
        } else if (function == "model_rows") {
            const Bytes counts = records.next(), channels = records.next(), cells = records.next(), tables = records.next();
            const Bytes grids = records.next(), data = records.next();
            auto rows = Records::as<cnna_rows>(records.next());
            wanted = records.next();
            found.resize(wanted.size());
            const auto *size = reinterpret_cast<const int64_t *>(counts.data());  // labels, centre, scores, heads, tables, where scores begin
            const auto *channel = reinterpret_cast<const int64_t *>(channels.data());
            const auto *cell = reinterpret_cast<const int64_t *>(cells.data());
            std::vector<std::vector<int8_t>> tensors;
            std::vector<cnna_head> places;
            const auto *next = reinterpret_cast<const int8_t *>(data.data());
            for (int64_t head = 0; head < size[3]; ++head) {
                tensors.emplace_back(next, next + channel[head] * cell[head]), next += channel[head] * cell[head];
                places.push_back({tensors.back().data(), 1, cell[head]});
            }
            const cnna_heads heads{size[0], size[1], size[2], size[3], size[4], static_cast<int64_t>(grids.size() / sizeof(cnna_grid)), channel, cell,
                                   reinterpret_cast<const float *>(tables.data()), reinterpret_cast<const cnna_grid *>(grids.data()), {0, 0}};
            rows.box = reinterpret_cast<float *>(found.data()), rows.score = rows.box + size[5];
            code = cnna_model_rows(&heads, places.data(), &rows);
        } else if (function == "suppress") {
            const Bytes data = records.next();
            const auto overlap = Records::as<float>(records.next());
            wanted = records.next();
            const size_t boxes = data.size() / (4 * sizeof(float));
            std::vector<int64_t> numbers(boxes + 1);
            size_t left = 0;
            code = cnna_suppress(reinterpret_cast<const float *>(data.data()), boxes, overlap, numbers.data(), &left);
            append(found, numbers.data(), left);
        } else {
            fail("an unknown function", record);
        }
        if (code != CNNA_OK) fail(function.c_str(), record);
        if (found != wanted) fail((function + " differs from numpy").c_str(), record);
    }
    std::printf("%zu records equal\n", record);
}
