#include "evidence/stacks/function_name.h"

#include <algorithm>
#include <cstddef>

namespace distrun {

namespace {

constexpr std::string_view kAnonymous = "(anonymous namespace)::";
constexpr std::string_view kLambda = "{lambda";
constexpr std::string_view kOperator = "operator";

bool is_word(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || letter == '_';
}

// The index after the bracket that closes the one at `begin`.
std::size_t behind_bracket(std::string_view name, std::size_t begin) {
  int depth = 0;
  for (std::size_t i = begin; i < name.size(); ++i) {
    const char letter = name[i];
    if (letter == '(' || letter == '<' || letter == '{' || letter == '[') ++depth;
    const bool is_arrow = letter == '>' && i > 0 && name[i - 1] == '-';
    if (letter == ')' || (letter == '>' && !is_arrow) || letter == '}' || letter == ']') --depth;
    if (depth == 0) return i + 1;
  }
  return name.size();
}

// The lambda that a std::thread runs; empty if `name` is another function.
std::string_view lambda_of_thread(std::string_view name) {
  constexpr std::string_view kBegin = "std::thread::_State_impl<std::thread::_Invoker<std::tuple<";
  if (!name.starts_with(kBegin)) return {};
  name.remove_prefix(kBegin.size());
  const auto lambda = name.find(kLambda);
  const auto argument = name.find(", ");
  if (lambda == std::string_view::npos || lambda > argument) return {};
  return name.substr(0, behind_bracket(name, lambda));
}

}  // namespace

std::string short_function_name(std::string_view name) {
  if (const auto lambda = lambda_of_thread(name); !lambda.empty()) name = lambda;
  // "read@GLIBC_2.2.5", and the compiler's copies "parse.constprop.0" and "parse.cold".
  name = name.substr(0, name.find('@'));
  if (name.find_first_of("<( ") == std::string_view::npos) name = name.substr(0, name.find('.', 1));
  std::string text;
  std::size_t i = 0;
  while (i < name.size()) {
    const std::string_view rest = name.substr(i);
    const bool begins_word = text.empty() || !is_word(text.back());
    if (begins_word && rest.starts_with(kOperator) && rest.size() > kOperator.size() &&
        !is_word(rest[kOperator.size()])) {
      // operator(), operator<, operator new, up to the parameters.
      const std::size_t symbol =
          rest.starts_with("operator()") ? kOperator.size() + 2 : kOperator.size() + 1;
      const std::size_t end = std::min(rest.find('(', symbol), rest.size());
      text += rest.substr(0, end);
      i += end;
    } else if (rest.starts_with(kAnonymous)) {
      i += kAnonymous.size();
    } else if (rest.starts_with(kLambda)) {
      text += "{lambda}";
      i = behind_bracket(name, i);
    } else if (rest.front() == '<' || rest.front() == '(' || rest.front() == '[') {
      i = behind_bracket(name, i);
    } else if (rest.front() == ' ') {
      // Only a return type, or "const" after the parameters, is separated by a space.
      const std::string_view tail = rest.substr(1);
      if (tail.starts_with("const") || tail.starts_with("volatile") || tail.starts_with("[clone"))
        break;
      text.clear();
      ++i;
    } else {
      text += rest.front();
      ++i;
    }
  }
  while (!text.empty() && (text.front() == '*' || text.front() == '&')) text.erase(0, 1);
  return text.empty() ? std::string(name) : text;
}

}  // namespace distrun
