// A rig's watch on itself: with a fault in the library it may wait for ever, and whoever called it has to hear in which run.
#ifndef CNNA_TESTS_WATCH_H
#define CNNA_TESTS_WATCH_H

#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

constexpr unsigned STILL_SECONDS = 60;  // twice the longest wait of a rig, and below what its caller grants it

char still_text[64];  // written before the alarm: its handler may format nothing

void stands_still(int) {
    (void)!write(STDERR_FILENO, still_text, strnlen(still_text, sizeof still_text));
    _exit(1);
}

// Says that a run begins. A process in which none begins for STILL_SECONDS prints the number of the last one, and ends with 1.
void begins(int64_t run) {
    std::signal(SIGALRM, stands_still);
    std::snprintf(still_text, sizeof still_text, "run %lld: it stands still\n", static_cast<long long>(run));
    alarm(STILL_SECONDS);
}

}  // namespace

#endif
