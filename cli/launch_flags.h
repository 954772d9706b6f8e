// The flags of `distrun launch`: one list, from which come what CLI11 is told (and so the help),
// how argv is split (command_line.h), and, by a test, the table of docs/torchrun.md.
//
//     for (const LaunchFlag& flag : launch_flags()) …
//
// To add one: a line in launch_flags.cc, a member of LaunchFlags (launch_options.h) that
// LaunchCommand binds to it, a line in docs/torchrun.md.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/flags.h"

namespace distrun {

// What a flag of torchrun's is here.
enum class FlagWorth {
  kSame,
  kBetter,   // Whatever torchrun takes is taken; more, or safer.
  kRefused,  // Taken where its value changes nothing; else an error that says what to do.
  kOwn,      // torchrun has none.
};

struct LaunchFlag {
  std::string_view name;     // With dashes; underscores are taken too.
  char letter = '\0';        // 'm' of "-m"; '\0' if it has none.
  std::string_view value;    // What the help calls its value; empty for a flag without one.
  bool has_variable = true;  // Its default may come from PET_<NAME>.
  FlagWorth worth = FlagWorth::kSame;
  std::string_view group;  // Its heading in the help.
  std::string_view help;

  bool takes_value() const { return !value.empty(); }
};

// In the order of the help.
std::span<const LaunchFlag> launch_flags();

// Makes the option of CLI11's for the flag of that name.
template <class Value>
void bind_flag(CLI::App& launch, std::string_view name, Value& into) {
  for (const LaunchFlag& flag : launch_flags()) {
    if (flag.name != name) continue;
    const std::string spelled =
        std::string(name) + (flag.takes_value() ? " " + std::string(flag.value) : "");
    add_flag(launch, spelled, into, std::string(flag.help),
             flag.letter == 0 ? "" : std::string(1, flag.letter))
        ->group(std::string(flag.group));
  }
}

// "PET_NPROC_PER_NODE"; empty where it has none.
std::string variable_of(const LaunchFlag& flag);

// "same", "better", "refused", "own".
std::string_view text_of(FlagWorth worth);

}  // namespace distrun
