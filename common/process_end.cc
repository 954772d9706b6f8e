#include "distrun/process_end.h"

#include <fmt/format.h>
#include <string.h>  // sigabbrev_np is in no C++ header.

namespace distrun {

bool succeeded(const ProcessEnd& end) { return end == ProcessEnd(ExitedWith{0}); }

std::string describe(const ProcessEnd& end) {
  if (const auto* exited = std::get_if<ExitedWith>(&end)) {
    return fmt::format("exit code {}", exited->code);
  }
  const int signal = std::get<KilledBy>(end).signal;
  return fmt::format("signal {} ({})", signal_name(signal), signal);
}

int exit_status(const ProcessEnd& end) {
  if (const auto* exited = std::get_if<ExitedWith>(&end)) return exited->code;
  return 128 + std::get<KilledBy>(end).signal;
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("SIG{}", signal);
}

}  // namespace distrun
