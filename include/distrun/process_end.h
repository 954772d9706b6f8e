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

// The process called exit() or returned from main().
struct ExitedWith {
  int code;  // The exit code.
  friend bool operator==(const ExitedWith&, const ExitedWith&) = default;
};

// A signal killed the process.
struct KilledBy {
  int signal;  // The number of the signal.
  friend bool operator==(const KilledBy&, const KilledBy&) = default;
};

// How the process ended.
using ProcessEnd = std::variant<ExitedWith, KilledBy>;

// Returns whether the process exited with code 0.
bool succeeded(const ProcessEnd& end);

// Returns "exit code 3" or "signal SIGSEGV (11)".
std::string describe(const ProcessEnd& end);

// Returns the status that a shell reports: the exit code, or 128 plus the signal's number.
int exit_status(const ProcessEnd& end);

// Returns the name of a signal, such as "SIGTERM".  For a signal number without a name, such as 77,
// returns "SIG77".
std::string signal_name(int signal);

}  // namespace distrun
