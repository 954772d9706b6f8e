#include "cli/flags.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "common/text/parse_number.h"
#include "common/units.h"

namespace distrun {

namespace {

// nullopt unless it is a number of seconds from 0 to 1e9.
std::optional<std::chrono::milliseconds> parse_seconds(const std::string& text) {
  constexpr double kSecondsMax = 1e9;
  double seconds = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  // Also fails for NaN.
  if (error != std::errc() || stop != text.data() + text.size() ||
      !(seconds >= 0 && seconds <= kSecondsMax)) {
    return std::nullopt;
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1000)));
}

constexpr std::size_t kHelpColumn = 30, kHelpColumnsMax = 90;

// `name` and, from kHelpColumn on, `text` in lines of at most kHelpColumnsMax.
std::string help_row(const std::string& name, const std::string& text) {
  std::string row = "  " + name;
  std::size_t column = row.size();
  if (column >= kHelpColumn) {
    row += '\n';
    column = 0;
  }
  row.append(kHelpColumn - column, ' ');
  column = kHelpColumn;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const bool first = column == kHelpColumn;
    if (!first && column + 1 + word.size() > kHelpColumnsMax) {
      row += '\n' + std::string(kHelpColumn, ' ');
      column = kHelpColumn;
    } else if (!first) {
      row += ' ';
      ++column;
    }
    row += word;
    column += word.size();
  }
  return row + '\n';
}

}  // namespace

CLI::Validator number_from(int min, int max) {
  const auto check = [=](std::string& text) -> std::string {
    if (parse_number<int>(text, min, max)) return "";
    return fmt::format("'{}' is not a number from {} to {}", text, min, max);
  };
  return CLI::Validator(check, "");
}

CLI::Validator one_of(const std::string& first, const std::string& second) {
  const auto check = [=](std::string& text) -> std::string {
    if (text == first || text == second) return "";
    return fmt::format("'{}' is neither {} nor {}", text, first, second);
  };
  return CLI::Validator(check, "");
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string,
                                     CLI::AppFormatMode mode) const {
  std::string text = app->get_description() + "\n\nUsage: " + usage_ + "\n" + make_positionals(app);
  for (const std::string& group : app->get_groups()) {
    const auto options = app->get_options([&](const CLI::Option* option) {
      return !option->get_positional() && option->get_group() == group;
    });
    if (!options.empty()) text += make_group(group, false, options);
  }
  return text + make_subcommands(app, mode) + "\n" + make_footer(app);
}

std::string HelpFormatter::make_positionals(const CLI::App* app) const {
  const auto described = app->get_options([](const CLI::Option* option) {
    return option->get_positional() && !option->get_description().empty();
  });
  return described.empty() ? "" : make_group("Arguments", true, described);
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  if (is_positional) return help_row(option->get_name(true, false), option->get_description());
  std::string name;
  for (const std::string& letter : option->get_snames()) name += "-" + letter + ", ";
  name += "--" + option->get_lnames().front();
  if (option->get_type_size() == 0) return help_row(name, option->get_description());
  name += " " + option->get_type_name();
  const std::string& value = option->get_default_str();
  return help_row(name, option->get_description() + (value.empty() ? "" : " [" + value + "]"));
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return help_row(command->get_name(), command->get_description());
}

void add_help_flag(CLI::App& app, const std::string& group) {
  app.set_help_flag("-h,--help", "Print this help and exit.")->group(group);
}

std::chrono::milliseconds seconds_from(const std::string& flag, const std::string& text,
                                       std::chrono::milliseconds min) {
  const auto time = parse_seconds(text);
  if (!time) throw CLI::ValidationError(flag, "'" + text + "' is not a number of seconds");
  if (*time >= min) return *time;
  throw CLI::ValidationError(flag, fmt::format("'{}' is too small; the minimum is {} seconds", text,
                                               static_cast<double>(min.count()) / 1000));
}

std::chrono::milliseconds some_seconds_from(const std::string& flag, const std::string& text) {
  const auto time = parse_seconds(text);
  if (!time) throw CLI::ValidationError(flag, "'" + text + "' is not a number of seconds");
  if (time->count() > 0) return *time;
  throw CLI::ValidationError(flag, "'" + text + "' is too small; give more than 0 seconds");
}

std::string bytes_text(std::size_t bytes) {
  for (const auto& [unit, letter] : {std::pair(kGiB, "G"), {kMiB, "M"}, {kKiB, "K"}}) {
    if (bytes > 0 && bytes % unit == 0) return std::to_string(bytes / unit) + letter;
  }
  return std::to_string(bytes);
}

std::size_t bytes_from(const std::string& flag, const std::string& text) {
  std::string digits = text;
  std::size_t unit = 1;
  if (!digits.empty()) {
    const auto letter = static_cast<char>(std::toupper(static_cast<unsigned char>(digits.back())));
    unit = letter == 'K' ? kKiB : letter == 'M' ? kMiB : letter == 'G' ? kGiB : 1;
    if (unit > 1) digits.pop_back();
  }
  const auto number =
      parse_number<std::size_t>(digits, 1, std::numeric_limits<std::size_t>::max() / unit);
  if (!number) {
    throw CLI::ValidationError(flag, "'" + text + "' is not a size, such as 1000, 64K, 8M or 4G");
  }
  return *number * unit;
}

}  // namespace distrun
