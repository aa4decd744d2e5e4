// A turn for one run: see loop_turn.h. `host/board/turn.py` has the same turn for all that takes longer.
#include "loop_turn.h"

#include <sys/file.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

namespace cnna {

namespace {

constexpr size_t MOST_BYTES = 512;  // of a holder's name: a longer one is not known here

}  // namespace

LoopTurn::LoopTurn(cnna_turn &turn) : turn_(turn), locked_(turn.file >= 0 && flock(turn.file, LOCK_EX | LOCK_NB) == 0), taken_(locked_ && told()) {
    turn_.kept = 0;
}

LoopTurn::~LoopTurn() {
    if (locked_) (void)flock(turn_.file, LOCK_UN);
}

void LoopTurn::keep() {
    locked_ = false;
    turn_.kept = 1;
}

// Whether the file names the holder, and nothing behind it.
bool LoopTurn::told() const {
    uint8_t found[MOST_BYTES + 1];
    const auto bytes = static_cast<size_t>(turn_.holder_bytes);
    if (turn_.holder_bytes < 0 || bytes > MOST_BYTES) return false;
    return pread(turn_.file, found, bytes + 1, 0) == static_cast<ssize_t>(bytes) && !std::memcmp(found, turn_.holder, bytes);
}

}  // namespace cnna
