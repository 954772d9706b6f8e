#include "common/text/text_cut.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(TextCutTest, DropsAnIncompleteCharacterAtTheEnd) {
  EXPECT_EQ(whole_utf8("caf\xC3"), "caf");
  EXPECT_EQ(whole_utf8("café"), "café");
  EXPECT_EQ(whole_utf8("a\xE2\x80"), "a");
  EXPECT_EQ(whole_utf8(""), "");
}

TEST(TextCutTest, CutsBetweenCharacters) {
  EXPECT_EQ(cut_to_bytes("café", 5), "café");
  EXPECT_EQ(cut_to_bytes("café", 4), "caf");
  EXPECT_EQ(cut_to_bytes("café", 3), "caf");
  EXPECT_EQ(cut_to_bytes("caf\xC3", 4), "caf\xC3") << "what is not cut is kept";
  EXPECT_EQ(cut_to_bytes("é", 0), "");
}

TEST(TextCutTest, ShowsThatTextWasCut) {
  EXPECT_EQ(shortened("café", 5), "café");
  EXPECT_EQ(shortened("café", 4), "caf…");
  EXPECT_EQ(shortened("", 0), "");
}

TEST(TextCutTest, TheEndBeginsWithACharacter) {
  EXPECT_EQ(cut_to_last_bytes("éab", 4), "éab");
  EXPECT_EQ(cut_to_last_bytes("éab", 3), "ab");
  EXPECT_EQ(cut_to_last_bytes("😄ab", 5), "ab");
  EXPECT_EQ(cut_to_last_bytes("abc", 2), "bc");
  EXPECT_EQ(cut_to_last_bytes("é", 1), "");
  EXPECT_EQ(cut_to_last_bytes("\xA9\xA9\xA9\xA9\xA9\xA9", 5), "\xA9\xA9\xA9\xA9\xA9");
}

TEST(TextCutTest, ColumnsAreCharacters) {
  EXPECT_EQ(cut_to_columns("cafés", 5), "cafés");
  EXPECT_EQ(cut_to_columns("cafés", 4), "caf…");
  EXPECT_EQ(cut_to_columns("ééé", 2), "é…");
  EXPECT_EQ(cut_to_columns("ab", 1), "…");
  EXPECT_EQ(cut_to_columns("ab", 0), "");
}

TEST(TextCutTest, FindsTheLastNewline) {
  EXPECT_EQ(last_newline("a\nb\nc"), 3U);
  EXPECT_EQ(last_newline("abc"), std::string_view::npos);
}

}  // namespace
}  // namespace distrun
