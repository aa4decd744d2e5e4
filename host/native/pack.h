// Packing in bands: rows of the folded pictures of a batch, so that several threads can pack one picture.
#ifndef CNNA_PACK_H
#define CNNA_PACK_H

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cnna_host.h"

namespace cnna {

// CNNA_OK, or what cnna_pack says of its arguments.
int packable(const cnna_port &port, const cnna_tensor &tensor, const int8_t *table, int64_t images, const uint8_t *memory, size_t bytes);

// The bands of a batch. Each has the same number of rows, but for the last; they write every byte of the port's memory once.
//
// line: bytes of a line of the cache. Where rows and lines allow it, no line has bytes of two bands: `apart` says so.
struct Bands {
    Bands(const cnna_port &port, int64_t images, const uint8_t *memory, size_t line, size_t wanted);
    int64_t rows = 0;   // of a band
    size_t count = 0;
    bool apart = true;
};

// Called with a range of bytes that has been written.
using Written = void (*)(const void *context, const uint8_t *memory, size_t bytes);

class Packer;

// Packs bands for one port, again and again: what it has worked out for a tensor serves for the next of the same form.
class BandPacker {
  public:
    BandPacker();
    ~BandPacker();
    BandPacker(BandPacker &&) noexcept;

    // Arguments are as of cnna_pack, and `packable`. CNNA_NAN: a float is NaN. CNNA_MEMORY: there is none left.
    int pack(
        const cnna_port &port, const cnna_tensor &tensor, const int8_t *table, int64_t images, uint8_t *memory, const Bands &bands,
        size_t band, Written each = nullptr, const void *context = nullptr);

  private:
    std::unique_ptr<Packer> kept_;
};

}  // namespace cnna

#endif
