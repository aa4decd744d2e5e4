// The turn to use an accelerator, for one run: see cnna_turn in cnna_host.h.
#ifndef CNNA_LOOP_TURN_H
#define CNNA_LOOP_TURN_H

#include <cstddef>

#include "cnna_host.h"

namespace cnna {

// Takes the turn without waiting, and gives it back at its end unless it is kept.
class LoopTurn {
  public:
    explicit LoopTurn(cnna_turn &turn);
    ~LoopTurn();

    LoopTurn(const LoopTurn &) = delete;
    LoopTurn &operator=(const LoopTurn &) = delete;

    // Whether it is this object's, and has been nobody else's since the file was written.
    bool taken() const { return taken_; }

    // Leaves it to the caller to give it back.
    void keep();

  private:
    bool told() const;

    cnna_turn &turn_;
    bool locked_, taken_;
};

}  // namespace cnna

#endif
