#include "cli/near_miss.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "cli/command_line.h"
#include "cli/launch_flags.h"
#include "common/text/near_miss.h"

namespace distrun {

namespace {

bool looks_like_program(const std::string& word) {
  if (word.find_first_of("/.") != word.npos) return true;
  std::error_code error;
  return std::filesystem::is_regular_file(word, error);
}

}  // namespace

std::string unknown_command(const CLI::App& app, const std::string& word) {
  std::string text = "unknown command " + word;
  const bool top = app.get_parent() == nullptr;
  if (top && looks_like_program(word)) return text + "; to start a program: distrun launch " + word;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return text + did_you_mean(word, names);
}

std::string unknown_flag(const CLI::App& app, const std::string& word) {
  const std::string flag = word.substr(0, word.find('='));
  std::string text = "unknown flag " + flag;
  const std::size_t begin = std::min(flag.find_first_not_of('-'), flag.size());
  const std::string name = flag.substr(begin);
  const auto flags = launch_flags();
  const bool of_launch = std::any_of(flags.begin(), flags.end(), [&](const LaunchFlag& one) {
    return one.name == name || underscored(std::string(one.name)) == name;
  });
  const bool top = app.get_parent() == nullptr;
  if (top && of_launch) return text + "; to start a run: distrun launch " + flag;
  if (const auto meant = flag_of_other_launcher(name); top && !meant.empty()) {
    return text + "; to start a run: distrun launch --" + std::string(meant);
  }
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options({})) {
    for (const std::string& spelling : option->get_lnames()) names.push_back(spelling);
  }
  return text + did_you_mean(name, names, "--");
}

}  // namespace distrun
