#include "testsuites/harness/select/name_expression.h"

#include <fmt/format.h>

#include "common/text/printable.h"
#include "common/text/words.h"

namespace distrun {

namespace {

constexpr int kDepthMax = 100;  // Each level takes stack space.

bool is_space(char letter) { return letter == ' ' || letter == '\t' || letter == '\n'; }

}  // namespace

// A recursive-descent parser.  `token_` is the next token, empty at the end.
class NameExpressionParser {
 public:
  explicit NameExpressionParser(std::string_view text) : text_(text) { step(); }

  Result<NameExpression> parse() {
    auto expression = either(0);
    if (expression && !token_.empty()) return wrong("expected 'and', 'or' or the end");
    return expression;
  }

 private:
  using Kind = NameExpression::Kind;

  Result<NameExpression> either(int depth) {
    auto left = both(depth);
    while (left && token_ == "or")
      left = joined(Kind::kOr, *left, &NameExpressionParser::both, depth);
    return left;
  }

  Result<NameExpression> both(int depth) {
    auto left = one(depth);
    while (left && token_ == "and")
      left = joined(Kind::kAnd, *left, &NameExpressionParser::one, depth);
    return left;
  }

  Result<NameExpression> one(int depth) {
    if (depth > kDepthMax) return wrong("it is nested too deeply");
    if (token_ == "not") return negated(depth);
    if (token_ == "(") return in_parentheses(depth);
    if (token_.empty() || token_ == ")" || token_ == "and" || token_ == "or") {
      return wrong("expected a word, 'not' or '('");
    }
    NameExpression word;
    word.word_ = ascii_lower(token_);
    step();
    return word;
  }

  Result<NameExpression> negated(int depth) {
    step();
    auto part = one(depth + 1);
    if (!part) return part;
    NameExpression expression;
    expression.kind_ = Kind::kNot;
    expression.parts_.push_back(std::move(*part));
    return expression;
  }

  Result<NameExpression> in_parentheses(int depth) {
    step();
    auto expression = either(depth + 1);
    if (!expression) return expression;
    if (token_ != ")") return wrong("expected ')'");
    step();
    return expression;
  }

  // "a and b and c" becomes ((a and b) and c), as deep as it is long, so length is limited too.
  Result<NameExpression> joined(Kind kind, NameExpression& left,
                                Result<NameExpression> (NameExpressionParser::*next)(int),
                                int depth) {
    if (++joints_ > kDepthMax) return wrong("it is too long");
    step();
    auto right = (this->*next)(depth);
    if (!right) return right;
    NameExpression expression;
    expression.kind_ = kind;
    expression.parts_.push_back(std::move(left));
    expression.parts_.push_back(std::move(*right));
    return expression;
  }

  void step() {
    at_ += token_.size();
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    std::size_t end = at_;
    while (end < text_.size() && !is_space(text_[end]) && !is_parenthesis(text_[end])) ++end;
    if (end == at_ && at_ < text_.size()) ++end;
    token_ = text_.substr(at_, end - at_);
  }

  static bool is_parenthesis(char letter) { return letter == '(' || letter == ')'; }

  Error wrong(std::string_view what) const {
    constexpr std::size_t kShown = 200;
    const std::string place =
        token_.empty() ? "the end" : fmt::format("'{}'", printable(token_, kShown));
    return {ErrorKind::kInvalidArgument,
            fmt::format("-k '{}': at {}, {}: {}", printable(text_, kShown), at_ + 1, place, what)};
  }

  std::string_view text_;
  std::size_t at_ = 0;  // Where the token starts.
  std::string_view token_;
  int joints_ = 0;
};

Result<NameExpression> NameExpression::parse(std::string_view text) {
  return NameExpressionParser(text).parse();
}

bool NameExpression::matches(std::string_view id) const { return holds_for(ascii_lower(id)); }

bool NameExpression::holds_for(std::string_view id) const {
  switch (kind_) {
    case Kind::kWord:
      return id.find(word_) != std::string_view::npos;
    case Kind::kNot:
      return !parts_[0].holds_for(id);
    case Kind::kAnd:
      return parts_[0].holds_for(id) && parts_[1].holds_for(id);
    case Kind::kOr:
      return parts_[0].holds_for(id) || parts_[1].holds_for(id);
  }
  return false;
}

}  // namespace distrun
