// Detections of a run: see loop_detect.h.
#include "loop_detect.h"

#include <algorithm>
#include <memory>

#include "checks.h"
#include "detect.h"
#include "vectors.h"

namespace cnna {

namespace {

// The head tensors of a run.
class Heads {
  public:
    Heads(const Program &program, const Job &job, const cnna_cache &cache) : program_(program), job_(job), cache_(cache), what_(job.detector->heads) {
        const auto count = static_cast<size_t>(what_.heads);
        heads_.resize(count), whole_.resize(count), planes_.resize(count);
        for (size_t head = 0; head < count; ++head) whole_[head].resize(static_cast<size_t>(blocks(port(head))), false);
        for (int64_t number = 0; number < what_.grids && what_.scores != CNNA_AREAS; ++number) note(scanned(what_, what_.grid[number]));
        for (size_t head = 0; head < count; ++head)
            if (!in_place(head)) planes_[head].reset(new int8_t[static_cast<size_t>(what_.channels[head] * what_.cells[head])]);
    }

    // The tensors of one image.
    int of(int64_t image, Tensors &made) {
        for (size_t head = 0; head < heads_.size(); ++head) {
            const cnna_port &one = port(head);
            const uint8_t *from = memory(head) + image * one.image_bytes;
            const auto bytes = static_cast<size_t>(one.image_bytes);
            if (!planes_[head]) {
                heads_[head] = {reinterpret_cast<const int8_t *>(from), one.ci, one.block_bytes};
                for (size_t block = 0; block < whole_[head].size(); ++block)
                    if (whole_[head][block]) fresh(from + static_cast<int64_t>(block) * one.block_bytes, what_.cells[head] * one.ci);
                continue;
            }
            fresh(from, one.image_bytes);
            heads_[head] = {planes_[head].get(), 1, what_.cells[head]};
            const auto elements = static_cast<size_t>(what_.channels[head] * what_.cells[head]);
            if (const int code = cnna_unpack(&one, from, bytes, 1, CNNA_INT8, planes_[head].get(), elements); code != CNNA_OK) return code;
        }
        made.head = heads_.data();
        made.before = nullptr;
        if (cache_.invalidate) made.before = [this](auto... what) { look(what...); };
        return CNNA_OK;
    }

  private:
    const cnna_port &port(size_t head) const { return program_.out[static_cast<size_t>(job_.detector->ports[head])]; }
    const uint8_t *memory(size_t head) const {
        return program_.memory(job_.slot, program_.in.size() + static_cast<size_t>(job_.detector->ports[head]));
    }

    // A scan reads these channels of every cell.
    void note(const Scanned &what) {
        const auto head = static_cast<size_t>(what.head);
        const int64_t ci = port(head).ci;
        for (int64_t block = what.channel / ci; block <= (what.channel + what.count - 1) / ci; ++block) whole_[head][static_cast<size_t>(block)] = true;
    }

    // Whether words are read where they lie: no cells or classes are compared, rows follow each other, and no short words are compared one by one.
    bool in_place(size_t head) const {
        const cnna_port &one = port(head);
        if (one.folded[1] > 1 && one.row_bytes != one.folded[2] * one.ci) return false;
        if (what_.scores != CNNA_TABLES) return what_.scores == CNNA_AREAS;
        const auto compared = [&](const cnna_grid &grid) { return grid.objectness[0] < 0 && static_cast<size_t>(grid.classes[0]) == head; };
        return one.ci % static_cast<int64_t>(LANES) == 0 || std::none_of(what_.grid, what_.grid + what_.grids, compared);
    }

    void fresh(const uint8_t *from, int64_t bytes) const {
        if (cache_.invalidate) cache_.invalidate(cache_.context, from, static_cast<size_t>(bytes));
    }

    // Before channels of cells are read.
    void look(int64_t number, int64_t channel, int64_t count, int64_t cell, int64_t cells) const {
        const auto head = static_cast<size_t>(number);
        if (planes_[head]) return;
        const cnna_head &one = heads_[head];
        for (int64_t block = channel / one.word; block <= (channel + count - 1) / one.word; ++block)
            if (!whole_[head][static_cast<size_t>(block)])
                fresh(reinterpret_cast<const uint8_t *>(one.data) + block * one.block + cell * one.word, cells * one.word);
    }

    const Program &program_;
    const Job &job_;
    const cnna_cache &cache_;
    const cnna_heads &what_;
    std::vector<cnna_head> heads_;
    std::vector<std::vector<bool>> whole_;              // of each head: the blocks that a scan reads of every cell
    std::vector<std::unique_ptr<int8_t[]>> planes_;  // of each head; null: it is read where it lies
};

}  // namespace

int takes(const Program &program, const cnna_job &job) {
    const cnna_detector &one = *job.detector;
    if (!one.heads || !one.wanted || !one.ports || !sound(*one.heads, *one.wanted)) return CNNA_ARGUMENT;
    for (int64_t head = 0; head < one.heads->heads; ++head) {
        if (!within(one.ports[head], 0, static_cast<int64_t>(program.out.size()) - 1)) return CNNA_ARGUMENT;
        const cnna_port &port = program.out[static_cast<size_t>(one.ports[head])];
        if (one.heads->channels[head] != port.folded[0] || one.heads->cells[head] != port.folded[1] * port.folded[2]) return CNNA_ARGUMENT;
    }
    const auto images = static_cast<size_t>(program.images), most = static_cast<size_t>(one.wanted->most);
    const size_t needed[CNNA_DETECTED] = {4 * most, most, most, 1};
    for (size_t which = 0; which < CNNA_DETECTED; ++which)
        if (!job.outputs[which] || job.elements[which] / needed[which] < images) return CNNA_BOUNDS;
    return CNNA_OK;
}

int detect(const Program &program, const Job &job, const cnna_cache &cache) {
    return guarded([&] {
        Heads heads(program, job, cache);
        Tensors tensors{};
        const auto place = [&](size_t which) { return job.outputs[which].place; };
        for (int64_t image = 0; image < program.images; ++image) {
            if (const int code = heads.of(image, tensors); code != CNNA_OK) return code;
            const int64_t at = image * job.detector->wanted.most;
            const int code = detect(job.detector->heads, tensors, job.detector->wanted, static_cast<float *>(place(0)) + 4 * at,
                                    static_cast<float *>(place(1)) + at, static_cast<int64_t *>(place(2)) + at, static_cast<int64_t *>(place(3))[image]);
            if (code != CNNA_OK) return code;
        }
        return static_cast<int>(CNNA_OK);
    });
}

}  // namespace cnna
