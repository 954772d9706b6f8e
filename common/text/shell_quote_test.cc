#include "common/text/shell_quote.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(ShellQuoteTest, KeepsPlainWords) {
  EXPECT_EQ(shell_quoted("--lr=0.1"), "--lr=0.1");
  EXPECT_EQ(shell_quoted("/usr/bin/python3"), "/usr/bin/python3");
}

TEST(ShellQuoteTest, QuotesWordsThatAShellWouldExpandOrSplit) {
  EXPECT_EQ(shell_quoted(""), "''");
  EXPECT_EQ(shell_quoted("two words"), "'two words'");
  EXPECT_EQ(shell_quoted("$HOME"), "'$HOME'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
}

}  // namespace
}  // namespace distrun
