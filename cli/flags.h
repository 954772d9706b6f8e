// How distrun's flags look: torchrun's spellings, one line each in the help.
//
//     flag(app, "nproc-per-node", options.workers, "Workers on this node.");
//
// The flag is then `--nproc-per-node` and `--nproc_per_node`, and its default can
// come from the variable PET_NPROC_PER_NODE, all as torchrun has it.  own_flag() makes
// one of a command that torchrun does not have: without the variable.
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

template <class Value>
CLI::Option* flag(CLI::App& app, const std::string& name, Value& into, const std::string& help,
                  const std::string& letter = "") {
  return own_flag(app, name, into, help, letter)->envname(pet_variable(name));
}

// Seconds, whole or not, in decimal: the value of `flag`.  Throws CLI::ValidationError.
std::chrono::milliseconds seconds_from(const std::string& flag, const std::string& text);

// As seconds_from(), but 0 is refused as well.
std::chrono::milliseconds some_seconds_from(const std::string& flag, const std::string& text);

// Bytes: "1000", "64K", "8M", "4G" (times 1,024).
std::size_t bytes_from(const std::string& flag, const std::string& text);

// As bytes_from() reads it: "8M".
std::string bytes_text(std::size_t bytes);

// The help of one command: its usage as given, a flag by one of its spellings.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::string usage) : usage_(std::move(usage)) { column_width(34); }

  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: " + usage_ + "\n";
  }

  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    if (is_positional) return option->get_name(true, false);
    std::string name;
    for (const std::string& letter : option->get_snames()) name += "-" + letter + ", ";
    return name + "--" + option->get_lnames().front();
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0) return "";
    std::string text = " " + option->get_type_name();
    if (!option->get_default_str().empty()) text += "=" + option->get_default_str();
    return text;
  }

 private:
  std::string usage_;
};

}  // namespace distrun
