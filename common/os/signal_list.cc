#include "common/os/signal_list.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>

#include "common/text/parse_number.h"
#include "common/text/words.h"
#include "distrun/process_end.h"

namespace distrun {

namespace {

// The launcher uses the second line itself and ignores the third.
constexpr auto kNotToBeHad =
    std::to_array({SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT,  //
                   SIGCHLD, SIGCONT, SIGTSTP,                                   //
                   SIGTTOU, SIGPIPE, SIGXFSZ});

bool can_be_had(int signal) {
  const bool is_the_c_librarys = signal > SIGSYS && signal < SIGRTMIN;
  return !is_the_c_librarys &&
         std::find(kNotToBeHad.begin(), kNotToBeHad.end(), signal) == kNotToBeHad.end();
}

Result<int> parse_signal(std::string_view text) {
  if (const auto number = parse_number<int>(text, 1, NSIG - 1)) return *number;
  std::string name(text);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  if (!name.starts_with("SIG")) name = "SIG" + name;
  for (int signal = 1; signal < NSIG; ++signal) {
    if (signal_name(signal) == name) return signal;
  }
  return Error{ErrorKind::kInvalidArgument,
               "'" + std::string(text) +
                   "' is not a signal: give names like SIGUSR1 or USR1, or "
                   "numbers, separated by commas"};
}

}  // namespace

Result<std::vector<int>> parse_signals(std::string_view text) {
  std::vector<int> signals;
  if (trimmed(text).empty()) return signals;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto signal = parse_signal(trimmed(text.substr(begin, end - begin)));
    begin = end + 1;
    if (!signal) return signal.error();
    if (!can_be_had(*signal)) {
      return Error{ErrorKind::kInvalidArgument,
                   signal_name(*signal) + " cannot be handled or forwarded: remove it"};
    }
    if (std::find(signals.begin(), signals.end(), *signal) == signals.end()) {
      signals.push_back(*signal);
    }
  }
  return signals;
}

std::string signals_text(const std::vector<int>& signals) {
  std::string text;
  for (const int signal : signals) text += (text.empty() ? "" : ",") + signal_name(signal);
  return text;
}

}  // namespace distrun
