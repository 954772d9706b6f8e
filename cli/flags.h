// How flags of distrun look, and how their values are read.
//
//     own_flag(app, "max-key", max_key_, "Largest key.")->type_name("SIZE");
//
// The flag is then `--max-key` and `--max_key`, as in torchrun.
#pragma once

#include <algorithm>
#include <cctype>
#include <chrono>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>

namespace distrun {

inline std::string underscored(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// "-m,--no-python" style names: `letter` may be empty.
inline std::string spellings(const std::string& letter, const std::string& name) {
  std::string all = letter.empty() ? "" : "-" + letter + ",";
  all += "--" + name;
  if (underscored(name) != name) all += ",--" + underscored(name);
  return all;
}

inline std::string pet_variable(const std::string& name) {
  std::string variable = "PET_" + underscored(name);
  std::transform(variable.begin(), variable.end(), variable.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  return variable;
}

template <class Value>
CLI::Option* own_flag(CLI::App& app, const std::string& name, Value& into, const std::string& help,
                      const std::string& letter = "") {
  CLI::Option* option;
  if constexpr (std::is_same_v<Value, bool>) {
    option = app.add_flag(spellings(letter, name), into, help);
  } else {
    option = app.add_option(spellings(letter, name), into, help)->capture_default_str();
  }
  return option;
}

// Decimal seconds, at least `min`, for `flag`. Throws CLI::ValidationError.
std::chrono::milliseconds seconds_from(
    const std::string& flag, const std::string& text,
    std::chrono::milliseconds min = std::chrono::milliseconds::zero());

// Like seconds_from(), but rejects 0.
std::chrono::milliseconds some_seconds_from(const std::string& flag, const std::string& text);

// Bytes: "1000", "64K", "8M", "4G" (times 1,024).
std::size_t bytes_from(const std::string& flag, const std::string& text);

// The inverse of bytes_from(): "8M".
std::string bytes_text(std::size_t bytes);

// Checks of values: "--jobs: '-1' is not a number from 0 to 4096".
CLI::Validator number_from(int min, int max);

// "--isolation: 'thread' is neither fork nor exec".
CLI::Validator one_of(const std::string& first, const std::string& second);

// The help of a command: its usage as given, one spelling of each flag, lines of at most 90
// columns.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::string usage) : usage_(std::move(usage)) {}

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_positionals(const CLI::App* app) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;

 private:
  std::string usage_;
};

// Adds --help as the last flag.
void add_help_flag(CLI::App& app, const std::string& group = "Options");

}  // namespace distrun
