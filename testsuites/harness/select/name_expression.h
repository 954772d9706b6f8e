// NameExpression is what `-k` takes: which ids are meant, by words that occur in them.
//
//     auto expression = NameExpression::parse("allreduce and not (cuda or sparse)");
//     if (!expression) return expression.error();
//     expression->matches("gloo.ProcessGroupGlooTest.test_allreduce_basics")   // true
//
// As pytest's -k:
//
//     either := both { "or" both }
//     both   := one { "and" one }
//     one    := "not" one | "(" either ")" | WORD
//
// A WORD is everything up to a space or a parenthesis; it matches where it occurs in the id, large
// or small letters alike.  Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "distrun/result.h"

namespace distrun {

class NameExpression {
 public:
  // Fails with kInvalidArgument, and names the place: "-k 'a and': at 6, where it ends: a word,
  // 'not' or '(' is missing".
  static Result<NameExpression> parse(std::string_view text);

  bool matches(std::string_view id) const;

 private:
  friend class NameExpressionParser;

  enum class Kind { kWord, kNot, kAnd, kOr };

  // Of `id`, all of it in small letters.
  bool holds_for(std::string_view id) const;

  Kind kind_ = Kind::kWord;
  std::string word_;                   // In small letters.
  std::vector<NameExpression> parts_;  // One of kNot, two of kAnd and kOr.
};

}  // namespace distrun
