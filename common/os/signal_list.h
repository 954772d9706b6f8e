// Signals as a user writes them: "SIGTERM,SIGINT", "term, int" or "15,2".
//
//     auto signals = parse_signals("USR1,USR2");     // {SIGUSR1, SIGUSR2}
//     signals_text(*signals)                         // "SIGUSR1,SIGUSR2"
//
// A signal that is named twice counts once; an empty text is an empty list.  Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "distrun/result.h"

namespace distrun {

// Fails with kInvalidArgument for unknown signals, and for those that a process cannot handle and
// go on: SIGKILL and SIGSTOP, those of a crash, the C library's own, and those that a launcher
// needs itself (SIGCHLD, SIGCONT, SIGTSTP) or ignores (SIGPIPE, SIGXFSZ, SIGTTOU).
Result<std::vector<int>> parse_signals(std::string_view text);

std::string signals_text(const std::vector<int>& signals);

}  // namespace distrun
