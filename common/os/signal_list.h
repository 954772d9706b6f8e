// Lists of signals as users write them: "SIGTERM,SIGINT", "term, int" or "15,2".
//
//     auto signals = parse_signals("USR1,USR2");     // {SIGUSR1, SIGUSR2}
//     signals_text(*signals)                         // "SIGUSR1,SIGUSR2"
//
// Repeated signals count once; an empty text is an empty list. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "distrun/result.h"

namespace distrun {

// Fails with kInvalidArgument for other texts, and for signals that a launcher cannot handle:
// SIGKILL, SIGSTOP, crashes, the C library's, and those that it uses itself (SIGCHLD, SIGCONT,
// SIGTSTP) or ignores (SIGPIPE, SIGXFSZ, SIGTTOU).
Result<std::vector<int>> parse_signals(std::string_view text);

std::string signals_text(const std::vector<int>& signals);

}  // namespace distrun
