// The flags of `distrun launch`, in one table for the parser (command_line.h), the help, and
// docs/torchrun.md, which a test checks.
//
//     for (const LaunchFlag& flag : launch_flags()) …
//
// A new flag needs a line in launch_flags.cc, a member of LaunchFlags (launch_options.h) bound in
// LaunchCommand, a line in docs/torchrun.md, and new help (cli/test/texts_test.py).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/flags.h"

namespace distrun {

// How a flag compares with torchrun's.
enum class FlagWorth {
  kSame,
  kBetter,   // Does or checks more than in torchrun.
  kLimited,  // Rejects some values, and says what to do.
  kOwn,      // torchrun has no such flag.
};

struct LaunchFlag {
  std::string_view group;    // Heading in the help.
  std::string_view name;     // With dashes; underscores work too.
  char letter = '\0';        // "-m"; '\0' if it has none.
  std::string_view value;    // "N", as in the help; empty if the flag takes none.
  bool has_variable = true;  // PET_<NAME> may set it.
  FlagWorth worth = FlagWorth::kSame;
  std::string_view help;

  bool takes_value() const { return !value.empty(); }
};

// In the order of the help.
std::span<const LaunchFlag> launch_flags();

// Adds the flag of that name to CLI11's parser.
template <class Value>
void bind_flag(CLI::App& launch, std::string_view name, Value& into) {
  for (const LaunchFlag& flag : launch_flags()) {
    if (flag.name != name) continue;
    CLI::Option* option = own_flag(launch, std::string(name), into, std::string(flag.help),
                                   flag.letter == 0 ? "" : std::string(1, flag.letter));
    option->group(std::string(flag.group));
    if (flag.takes_value()) option->type_name(std::string(flag.value));
  }
}

// "PET_NPROC_PER_NODE"; empty if it has none.
std::string variable_of(const LaunchFlag& flag);

// "same", "better", "limited", "own".
std::string_view text_of(FlagWorth worth);

}  // namespace distrun
