#include "launcher/engines/host_list.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "common/text/parse_number.h"

namespace distrun {

namespace {

Error malformed(std::string_view what, std::string_view text) {
  constexpr std::size_t kShown = 200;
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("'{}' is not a list of {}", text.substr(0, kShown), what)};
}

// "08-10" and "12": the numbers, with the digits of the first one at least.
std::optional<std::vector<std::string>> numbers_of(std::string_view range) {
  const std::size_t dash = range.find('-');
  const std::string_view first = range.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : range.substr(dash + 1);
  const auto begin = parse_number<std::size_t>(first), end = parse_number<std::size_t>(last);
  if (!begin || !end || *end < *begin || *end - *begin >= kHostsMax) return std::nullopt;
  std::vector<std::string> numbers;
  for (std::size_t number = *begin; number <= *end; ++number) {
    numbers.push_back(fmt::format("{:0{}}", number, first.size()));
  }
  return numbers;
}

// The names that a part such as "rack[0-1]node[1-2]" stands for.
std::optional<std::vector<std::string>> names_of(std::string_view part) {
  std::vector<std::string> names = {""};
  while (!part.empty()) {
    const std::size_t open = part.find('[');
    for (std::string& name : names) name += part.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = part.find(']');
    const auto ranges = split_list(part.substr(open + 1, close - open - 1));
    if (!ranges) return std::nullopt;
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const std::string_view range : *ranges) {
        const auto numbers = numbers_of(range);
        if (!numbers || longer.size() + numbers->size() > kHostsMax) return std::nullopt;
        for (const std::string& number : *numbers) longer.push_back(name + number);
      }
    }
    names = std::move(longer);
    part.remove_prefix(close + 1);
  }
  if (names.front().empty()) return std::nullopt;
  return names;
}

}  // namespace

std::optional<std::vector<std::string_view>> split_list(std::string_view text) {
  std::vector<std::string_view> parts;
  bool is_inside = false;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char each = text[at];
    if (each == '[' || each == ']') {
      if (is_inside == (each == '[')) return std::nullopt;
      is_inside = each == '[';
    } else if (each == ',' && !is_inside) {
      parts.push_back(text.substr(begin, at - begin));
      begin = at + 1;
    }
  }
  if (is_inside) return std::nullopt;
  parts.push_back(text.substr(begin));
  return parts;
}

Result<std::vector<std::string>> expand_host_list(std::string_view text) {
  const auto parts = split_list(text);
  if (!parts) return malformed("hosts", text);
  std::vector<std::string> hosts;
  for (const std::string_view part : *parts) {
    auto names = names_of(part);
    if (!names || hosts.size() + names->size() > kHostsMax) return malformed("hosts", text);
    for (std::string& name : *names) hosts.push_back(std::move(name));
  }
  return hosts;
}

Result<std::vector<int>> expand_task_counts(std::string_view text) {
  std::vector<int> counts;
  const auto parts = split_list(text);
  if (!parts) return malformed("numbers of tasks", text);
  for (std::string_view part : *parts) {
    int nodes = 1;
    if (const std::size_t open = part.find("(x"); open != std::string_view::npos) {
      if (!part.ends_with(')')) return malformed("numbers of tasks", text);
      const auto times =
          parse_number<int>(part.substr(open + 2, part.size() - open - 3), 1, kHostsMax);
      if (!times) return malformed("numbers of tasks", text);
      nodes = *times;
      part = part.substr(0, open);
    }
    const auto tasks = parse_number<int>(part, 1);
    if (!tasks || counts.size() + static_cast<std::size_t>(nodes) > kHostsMax) {
      return malformed("numbers of tasks", text);
    }
    counts.insert(counts.end(), static_cast<std::size_t>(nodes), *tasks);
  }
  return counts;
}

}  // namespace distrun
