#include "common/demangle.h"

#include <cstdlib>
#include <memory>

#include <cxxabi.h>

namespace distrun {

namespace {

bool is_letter(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         (byte >= '0' && byte <= '9') || byte == '_' || byte == '.' || byte == '$';
}

// The demangler takes stack for each level of a name, and a text may come from anywhere.
constexpr std::size_t kNameBytesMax = 4096;

// As everybody writes it.
std::string with_short_strings(std::string text) {
  constexpr std::string_view kLong =
      "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
  for (auto at = text.find(kLong); at != std::string::npos; at = text.find(kLong, at)) {
    text.replace(at, kLong.size(), "std::string");
  }
  return text;
}

std::string in_source(const std::string& name) {
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, nullptr), std::free);
  return text ? with_short_strings(text.get()) : name;
}

bool is_mangled(std::string_view word) {
  return word.starts_with("_Z") && word.size() <= kNameBytesMax;
}

}  // namespace

std::string demangled_type(const char* name) { return in_source(name); }

std::string demangled(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && is_letter(text[end])) ++end;
    if (end > at) {
      const std::string word(text.substr(at, end - at));
      result += is_mangled(word) ? in_source(word) : word;
    } else {
      result += text[end++];
    }
    at = end;
  }
  return result;
}

}  // namespace distrun
