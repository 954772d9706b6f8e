#include "launcher/output/line_prefix.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace distrun {

namespace {

// The name at the start of `text`, by Python's rules: ASCII letters, '_', and digits after the
// first.
std::string_view leading_name(std::string_view text) {
  const auto fits = [](char byte, bool first) {
    const bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
    return byte == '_' || letter || (!first && byte >= '0' && byte <= '9');
  };
  std::size_t length = 0;
  while (length < text.size() && fits(text[length], length == 0)) ++length;
  return text.substr(0, length);
}

}  // namespace

const std::vector<std::pair<std::string_view, PrefixTemplate::Name>>& PrefixTemplate::names() {
  static const std::vector<std::pair<std::string_view, Name>> all = {
      {"role_name", Name::kRoleName}, {"rank", Name::kRank},     {"local_rank", Name::kLocalRank},
      {"host", Name::kHost},          {"hostname", Name::kHost}, {"stream", Name::kStream},
      {"time", Name::kTime},
  };
  return all;
}

Result<PrefixTemplate> PrefixTemplate::parse(std::string_view text) {
  const auto fail = [](const std::string& problem) {
    std::string known;
    for (const auto& [name, value] : names()) known += fmt::format(" ${{{}}}", name);
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("{}; use{}, or $$ for a dollar sign", problem, known)};
  };
  PrefixTemplate parsed;
  std::string literal;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const bool braced = rest.starts_with("${");
    const std::string_view name = leading_name(rest.substr(braced ? 2 : 1));
    if (!rest.starts_with('$') || rest.starts_with("$$") || (!braced && name.empty())) {
      literal += rest.front();
      at += rest.starts_with("$$") ? 2 : 1;
      continue;
    }
    if (braced && (name.empty() || !rest.substr(2 + name.size()).starts_with('}'))) {
      return fail("'${' needs a name and a '}'");
    }
    const auto known = std::find_if(names().begin(), names().end(),
                                    [&](const auto& entry) { return entry.first == name; });
    if (known == names().end()) return fail(fmt::format("unknown variable ${{{}}}", name));
    if (!literal.empty()) parsed.parts_.push_back({Name::kLiteral, std::exchange(literal, "")});
    parsed.parts_.push_back({known->second, ""});
    at += name.size() + (braced ? 3 : 1);
  }
  if (!literal.empty()) parsed.parts_.push_back({Name::kLiteral, literal});
  return parsed;
}

PrefixTemplate PrefixTemplate::torchruns() { return *parse("[${role_name}${local_rank}]:"); }

std::string PrefixTemplate::text(const PrefixValues& values, std::string_view time) const {
  std::string made;
  for (const Part& part : parts_) {
    switch (part.name) {
      case Name::kLiteral:
        made += part.literal;
        break;
      case Name::kRoleName:
        made += values.role_name;
        break;
      case Name::kRank:
        made += std::to_string(values.rank);
        break;
      case Name::kLocalRank:
        made += std::to_string(values.local_rank);
        break;
      case Name::kHost:
        made += values.host;
        break;
      case Name::kStream:
        made += values.stream;
        break;
      case Name::kTime:
        made += time;
        break;
    }
  }
  return made;
}

bool PrefixTemplate::shows_time() const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [](const Part& part) { return part.name == Name::kTime; });
}

std::string coloured(const std::string& text, LocalRank worker) {
  // Red is for errors; black and white may be the terminal's own colours.
  static constexpr std::array kColours = {36, 33, 32, 35, 34, 96, 93, 92, 95, 94};
  const auto colour = kColours[static_cast<std::size_t>(worker.value()) % kColours.size()];
  return text.empty() ? text : fmt::format("\x1b[{}m{}\x1b[0m", colour, text);
}

}  // namespace distrun
