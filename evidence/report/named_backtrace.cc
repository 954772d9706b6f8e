#include "evidence/report/named_backtrace.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "evidence/report/readable_stack.h"

namespace distrun {

namespace {

struct BacktraceLine {
  std::string_view number;  // "#12"
  std::string file;
  std::uint64_t address = 0;
};

// "#12 NAME+0x1c (FILE+0x12ab)", or an address in place of NAME+0x1c.
std::optional<BacktraceLine> parse_line(std::string_view line) {
  constexpr std::string_view kBeforeAddress = "+0x";
  const auto digits = line.find_first_not_of("0123456789", 1);
  if (!line.starts_with('#') || digits == std::string_view::npos || digits == 1)
    return std::nullopt;
  const auto open = line.rfind(" (");
  if (line[digits] != ' ' || open == std::string_view::npos || open <= digits ||
      !line.ends_with(')'))
    return std::nullopt;
  const std::string_view place = line.substr(open + 2, line.size() - open - 3);
  const auto plus = place.rfind(kBeforeAddress);
  if (plus == std::string_view::npos) return std::nullopt;
  BacktraceLine found{line.substr(0, digits), std::string(place.substr(0, plus)), 0};
  const std::string_view address = place.substr(plus + kBeforeAddress.size());
  const auto [end, error] =
      std::from_chars(address.data(), address.data() + address.size(), found.address, 16);
  if (error != std::errc() || end != address.data() + address.size()) return std::nullopt;
  return found;
}

// Whether the frame may be one that starts a thread or the program.
bool is_of_system(const Frame& frame) {
  return is_of_libc(frame) || frame.module.find("/libstdc++.so") != std::string::npos;
}

}  // namespace

std::string named_backtrace(std::string_view text, const NameFrame& name, const CutAt& cut) {
  std::string result;
  std::string held;  // Nameless frames, which are dropped if the backtrace ends with them.
  bool is_cut = false, has_frames = false;
  const auto end_backtrace = [&] {
    if (!has_frames) result += held;
    held.clear();
    is_cut = has_frames = false;
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const std::string newline = end < text.size() ? "\n" : "";
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto parsed = parse_line(line);
    if (!parsed) {
      end_backtrace();  // Another one may follow.
      result.append(line).append(newline);
      continue;
    }
    if (is_cut) continue;
    const Frame frame = name(parsed->file, parsed->address);
    const CutFrames here = cut(frame);
    is_cut = here != CutFrames::kNo;
    if (here == CutFrames::kFromHere) continue;
    if (frame.function.empty() && is_of_system(frame)) {
      held.append(line).append(newline);
      continue;
    }
    result += std::exchange(held, "");
    result += frame.function.empty() ? std::string(line)
                                     : fmt::format("{} {}", parsed->number, described(frame));
    result += newline;
    has_frames = true;
  }
  end_backtrace();
  return result;
}

}  // namespace distrun
