// NameExpression is the argument of `-k`: it selects ids by the words they contain.
//
//     auto expression = NameExpression::parse("allreduce and not (cuda or sparse)");
//     if (!expression) return expression.error();
//     expression->matches("gloo.ProcessGroupGlooTest.test_allreduce_basics")   // true
//
// The grammar is pytest's:
//
//     either := both { "or" both }
//     both   := one { "and" one }
//     one    := "not" one | "(" either ")" | WORD
//
// A WORD ends at a space or parenthesis, and matches ids that contain it, ignoring case. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "distrun/result.h"

namespace distrun {

class NameExpression {
 public:
  // Fails with kInvalidArgument, and names the place: "-k 'a and': at 6, the end: expected a word,
  // 'not' or '('".
  static Result<NameExpression> parse(std::string_view text);

  bool matches(std::string_view id) const;

 private:
  friend class NameExpressionParser;

  enum class Kind { kWord, kNot, kAnd, kOr };

  // Requires `id` in lower case.
  bool holds_for(std::string_view id) const;

  Kind kind_ = Kind::kWord;
  std::string word_;                   // In lower case.
  std::vector<NameExpression> parts_;  // One for kNot, two for kAnd and kOr.
};

}  // namespace distrun
