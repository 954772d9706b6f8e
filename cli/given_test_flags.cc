#include "cli/given_test_flags.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/hosts_orders.h"

namespace distrun {

std::vector<GivenTestFlag> given_test_flags(const CLI::App& command) {
  std::vector<GivenTestFlag> flags;
  for (const CLI::Option* option : command.get_options()) {
    const auto names = option->get_lnames();
    if (names.empty() || option->count() == 0) continue;
    GivenTestFlag flag{.name = names.front(), .group = option->get_group(), .values = {}};
    if (option->get_items_expected_max() > 0) {
      flag.values = option->results();
    } else if (!option->as<bool>()) {
      continue;
    }
    flags.push_back(std::move(flag));
  }
  return flags;
}

std::vector<std::string> words_of_flag(const GivenTestFlag& flag) {
  if (flag.values.empty()) return {"--" + flag.name};
  std::vector<std::string> words;
  for (const std::string& value : flag.values) {
    words.push_back(fmt::format("--{}={}", flag.name, value));
  }
  return words;
}

std::vector<std::string> arguments_on_host(const std::vector<GivenTestFlag>& flags,
                                           const std::vector<std::string>& names,
                                           const std::optional<std::vector<std::string>>& command) {
  std::vector<std::string> arguments;
  for (const GivenTestFlag& flag : flags) {
    if (is_flag_of_hosts(flag.name)) continue;
    const auto words = words_of_flag(flag);
    arguments.insert(arguments.end(), words.begin(), words.end());
  }
  arguments.insert(arguments.end(), names.begin(), names.end());
  if (!command) return arguments;
  arguments.emplace_back("--");
  arguments.insert(arguments.end(), command->begin(), command->end());
  return arguments;
}

}  // namespace distrun
