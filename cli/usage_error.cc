#include "cli/usage_error.h"

#include <algorithm>

#include "common/text/near_miss.h"

namespace distrun {

namespace {

std::string without_value(const std::string& flag) { return flag.substr(0, flag.find('=')); }

// A file rather than the name of a command.
bool looks_like_program(const std::string& word) {
  return word.find_first_of("./") != std::string::npos;
}

std::string unknown_command(const CLI::App& app, const CLI::App& outer, const std::string& word) {
  const bool at_top = &app == &outer;
  if (word.starts_with('-')) {
    if (!at_top) return "unknown flag " + word + "; flags go after the command";
    return "unknown flag " + word + "; flags go after the command: distrun launch " + word + " …";
  }
  if (at_top && looks_like_program(word)) {
    return "unknown command " + word + "; to start it: distrun launch " + word;
  }
  std::vector<std::string> names;
  for (const CLI::App* command : outer.get_subcommands({})) names.push_back(command->get_name());
  return "unknown command " + word + did_you_mean(word, names);
}

std::string unexpected(const CLI::App& command) {
  const std::vector<std::string> words = command.remaining(true);
  const auto flag = std::find_if(words.begin(), words.end(), [](const std::string& word) {
    return word.size() > 1 && word.starts_with('-');
  });
  if (flag == words.end()) return "unexpected argument " + words.front();
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_lnames().empty()) names.push_back(option->get_lnames().front());
  }
  const std::string word = without_value(*flag);
  return "unknown flag " + word +
         did_you_mean(word.substr(std::min(word.find_first_not_of('-'), word.size())), names, "--");
}

}  // namespace

const CLI::App& innermost_command(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : innermost_command(*chosen.front());
}

std::string command_name(const CLI::App& app) {
  std::string name = app.get_name();
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    name += " " + at->get_name();
  }
  return name;
}

std::string usage_problem(const CLI::App& app, const std::vector<std::string>& arguments,
                          const CLI::ParseError& error) {
  const CLI::App& command = innermost_command(app);
  if (!command.get_subcommands({}).empty()) {
    const std::string whole = command_name(app);
    const auto depth = static_cast<std::size_t>(std::count(whole.begin(), whole.end(), ' '));
    if (depth >= arguments.size()) return "no command given";
    return unknown_command(app, command, arguments[depth]);
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) return unexpected(command);
  const std::string text = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    return text.substr(0, text.find(':')) + ": needs a value";
  }
  return text;
}

}  // namespace distrun
