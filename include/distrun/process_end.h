// ProcessEnd says how a process ended: with an exit code or by a signal.
//
//     ProcessEnd end = KilledBy{SIGSEGV};
//     describe(end);       // "signal SIGSEGV (11)"
//     exit_status(end);    // 139, as a shell reports it
#pragma once

#if __cplusplus < 202002L
#error "distrun needs C++20: compile with -std=c++20"
#endif

#include <string>
#include <variant>

namespace distrun {

// The process exited.
struct ExitedWith {
  int code;  // Its exit code.
  friend bool operator==(const ExitedWith&, const ExitedWith&) = default;
};

// A signal ended the process.
struct KilledBy {
  int signal;  // The signal's number.
  friend bool operator==(const KilledBy&, const KilledBy&) = default;
};

// Either of the two.
using ProcessEnd = std::variant<ExitedWith, KilledBy>;

// Returns whether the process exited with code 0.
bool succeeded(const ProcessEnd& end);

// Returns "exit code 3" or "signal SIGSEGV (11)".
std::string describe(const ProcessEnd& end);

// Returns the status that a shell reports: the code, or 128 + signal.
int exit_status(const ProcessEnd& end);

// Returns the name of a signal: "SIGTERM"; "SIG77" for a number without a name.
std::string signal_name(int signal);

}  // namespace distrun
