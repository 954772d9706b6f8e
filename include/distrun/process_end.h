// ProcessEnd says how a process ended: by itself with a code, or by a signal.
//
//     ProcessEnd end = KilledBy{SIGSEGV};
//     describe(end);       // "signal SIGSEGV (11)"
//     exit_status(end);    // 139, as a shell reports it
//
// It is kept in this form everywhere; 128+n is only for the status that distrun
// itself ends with.
#pragma once

#include <string>
#include <variant>

namespace distrun {

struct ExitedWith {
  int code;
  friend bool operator==(const ExitedWith&, const ExitedWith&) = default;
};

struct KilledBy {
  int signal;
  friend bool operator==(const KilledBy&, const KilledBy&) = default;
};

using ProcessEnd = std::variant<ExitedWith, KilledBy>;

// Exit code 0 is success; everything else is not.
bool succeeded(const ProcessEnd& end);

// "exit code 3", "signal SIGSEGV (11)".
std::string describe(const ProcessEnd& end);

// The status a shell would report: the code, or 128 + signal.
int exit_status(const ProcessEnd& end);

// "SIGTERM"; "SIG77" for a number that has no name.
std::string signal_name(int signal);

}  // namespace distrun
