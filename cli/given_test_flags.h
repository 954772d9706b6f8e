// The flags of a `distrun test` as words, for another distrun test with the same flags.
//
//     for (const GivenTestFlag& flag : given_test_flags(command)) …
//     arguments_on_host(given_test_flags(command), names, {"./check_ring"})
//     // {"--timeout=30", "mine.SumTest", "--", "./check_ring"}
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>

namespace distrun {

struct GivenTestFlag {
  std::string name;                 // "timeout"
  std::string group;                // The heading in the help.
  std::vector<std::string> values;  // None if it takes none.
};

// After parsing. Without switches that are off, as in --shuffle=false.
std::vector<GivenTestFlag> given_test_flags(const CLI::App& command);

// {"--binary=a", "--binary=b"}; a switch is one word.
std::vector<std::string> words_of_flag(const GivenTestFlag& flag);

// Of a host of --hosts, which does not get the flags of hosts. `names`: the tests; `command`: what
// follows --. Pure.
std::vector<std::string> arguments_on_host(const std::vector<GivenTestFlag>& flags,
                                           const std::vector<std::string>& names,
                                           const std::optional<std::vector<std::string>>& command);

}  // namespace distrun
