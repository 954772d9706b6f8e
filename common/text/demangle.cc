#include "common/text/demangle.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include <cxxabi.h>

#include "common/units.h"

namespace distrun {

namespace {

// A name may refer to its own parts, and these to other parts: a few hundred bytes can expand to
// gigabytes. With n references, the worst name repeats a part 3^(n/3) times. A pack expansion
// repeats its pattern for each of possibly hundreds of template arguments. Within these bounds a
// name takes at most about 1 MB and a few ms; 88% of LibTorch's names are within them.
constexpr std::size_t kNameBytesMax = 512;
constexpr int kReferencesMax = 12;
constexpr int kReferencesOfAnExpansion = 8;  // Its weight: one fits.

// Longer names are not readable.
constexpr std::size_t kResultBytesMax = 4 * kKiB;

// Counts "S_", "S1A_", "T_", "TL0__", and the pack expansions "Dp" and "sp". May count too many,
// because identifiers may contain these letters, but never too few.
int references(std::string_view name) {
  int count = 0;
  for (std::size_t i = 0; i + 1 < name.size(); ++i) {
    const char first = name[i], second = name[i + 1];
    const bool refers =
        second == '_' || (second >= '0' && second <= '9') || (second >= 'A' && second <= 'Z');
    if ((first == 'S' || first == 'T') && refers) ++count;
    if ((first == 'D' || first == 's') && second == 'p') count += kReferencesOfAnExpansion;
  }
  return count;
}

// Writes std::string in its usual form.
std::string with_short_strings(std::string text) {
  constexpr std::string_view kLong =
      "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
  for (auto at = text.find(kLong); at != std::string::npos; at = text.find(kLong, at)) {
    text.replace(at, kLong.size(), "std::string");
  }
  return text;
}

std::string in_source(const std::string& name) {
  if (name.size() > kNameBytesMax || references(name) > kReferencesMax) return name;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, nullptr), std::free);
  if (!text || std::string_view(text.get()).size() > kResultBytesMax) return name;
  return with_short_strings(text.get());
}

// The index of the name in a line "#12 _Z1fv+0x1 …"; npos for other lines.
std::size_t name_begins(std::string_view line) {
  if (!line.starts_with('#')) return std::string_view::npos;
  const auto behind = line.find_first_not_of("0123456789", 1);
  const bool is_frame =
      behind != std::string_view::npos && behind > 1 && line.substr(behind).starts_with(" _Z");
  return is_frame ? behind + 1 : std::string_view::npos;
}

std::string line_in_source(std::string_view line) {
  const auto begin = name_begins(line);
  if (begin == std::string_view::npos) return std::string(line);
  const auto end = std::min(line.find_first_of("+ ", begin), line.size());
  return std::string(line.substr(0, begin)) +
         in_source(std::string(line.substr(begin, end - begin))) + std::string(line.substr(end));
}

}  // namespace

std::string demangled_type(const char* name) { return in_source(name); }

std::string demangled_symbol(const char* name) {
  const std::string_view text = name;
  return text.starts_with("_Z") ? in_source(name) : std::string(text);
}

std::string demangled_backtrace(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    result += line_in_source(text.substr(0, end));
    if (end < text.size()) result += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

}  // namespace distrun
