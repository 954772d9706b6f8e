#include "cli/near_miss.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "cli/launch_flags.h"
#include "common/text/edit_distance.h"

namespace distrun {

namespace {

std::optional<std::string> nearest(const std::string& word, const std::vector<std::string>& names) {
  const auto far = [&](const std::string& name) {
    const bool begins = word.size() >= 3 && name.starts_with(word);
    return begins ? 0 : edit_distance(word, name);
  };
  const auto found = std::min_element(names.begin(), names.end(),
                                      [&](auto& a, auto& b) { return far(a) < far(b); });
  const std::size_t far_max = word.size() < 4 ? 1 : std::max<std::size_t>(2, word.size() / 4);
  if (found == names.end() || far(*found) > far_max) return std::nullopt;
  return *found;
}

bool looks_like_program(const std::string& word) {
  if (word.find_first_of("/.") != word.npos) return true;
  std::error_code error;
  return std::filesystem::is_regular_file(word, error);
}

}  // namespace

std::string unknown_command(const CLI::App& app, const std::string& word) {
  std::string text = "there is no command " + word;
  const bool top = app.get_parent() == nullptr;
  if (top && looks_like_program(word)) return text + "; to start it: distrun launch " + word;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (const auto name = nearest(word, names)) text += fmt::format(": did you mean {}?", *name);
  return text;
}

std::string unknown_flag(const CLI::App& app, const std::string& word) {
  const std::string flag = word.substr(0, word.find('='));
  std::string text = "there is no flag " + flag;
  const std::size_t begin = std::min(flag.find_first_not_of('-'), flag.size());
  const std::string name = flag.substr(begin);
  const auto flags = launch_flags();
  const bool of_launch = std::any_of(flags.begin(), flags.end(), [&](const LaunchFlag& one) {
    return one.name == name || underscored(std::string(one.name)) == name;
  });
  if (app.get_parent() == nullptr && of_launch) {
    return text + " here; to start a run: distrun launch " + flag;
  }
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options({})) {
    for (const std::string& spelling : option->get_lnames()) names.push_back(spelling);
  }
  if (const auto meant = nearest(name, names)) text += fmt::format(": did you mean --{}?", *meant);
  return text;
}

}  // namespace distrun
