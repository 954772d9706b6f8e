// How distrun's flags look: torchrun's spellings, one line each in the help.
//
//     add_flag(app, "port-file FILE", path, "Write the port to FILE.");
//
// The flag is then `--port-file` and `--port_file`, and the help shows FILE as its value.
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

// `name` is "same-user", or "port-file FILE" for a flag with a value.  The help shows the value
// that `into` has now as the default, unless it is empty.
template <class Value>
CLI::Option* add_flag(CLI::App& app, const std::string& name, Value& into, const std::string& help,
                      const std::string& letter = "") {
  const std::size_t space = name.find(' ');
  const std::string spelled = spellings(letter, name.substr(0, space));
  if constexpr (std::is_same_v<Value, bool>) {
    return app.add_flag(spelled, into, help);
  } else {
    return app.add_option(spelled, into, help)
        ->capture_default_str()
        ->take_last()
        ->type_name(name.substr(space + 1));
  }
}

// Checks of a flag's value, with errors that name the value.
CLI::Validator whole_number(int min, int max);
CLI::Validator one_of(const std::string& first, const std::string& second);

// Seconds, whole or not, in decimal: the value of `flag`.  Throws CLI::ValidationError.
std::chrono::milliseconds seconds_from(const std::string& flag, const std::string& text);

// As seconds_from(), but 0 is refused as well.
std::chrono::milliseconds some_seconds_from(const std::string& flag, const std::string& text);

// Bytes: "1000", "64K", "8M", "4G" (times 1,024).
std::size_t bytes_from(const std::string& flag, const std::string& text);

// As bytes_from() reads it: "8M".
std::string bytes_text(std::size_t bytes);

// The help of one command: its usage as given, one spelling of each flag, its value's name, and its
// default behind the text.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::string usage) : usage_(std::move(usage)) { column_width(34); }

  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: " + usage_ + "\n";
  }

  // CLI11 puts two empty lines between groups of flags.
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string help = CLI::Formatter::make_help(app, std::move(name), mode);
    for (std::size_t at; (at = help.find("\n\n\n")) != std::string::npos;) help.erase(at, 1);
    return help;
  }

  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    if (is_positional) return option->get_name(true, false);
    std::string name;
    for (const std::string& letter : option->get_snames()) name += "-" + letter + ", ";
    return name + "--" + option->get_lnames().front();
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0) return "";
    return " " + option->get_type_name();
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    const std::string standard = option->get_default_str();
    return option->get_description() + (standard.empty() ? "" : " (default " + standard + ")");
  }

 private:
  std::string usage_;
};

}  // namespace distrun
