#include "launcher/nodes/text_inbox.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(TextInboxTest, PutsPiecesTogether) {
  TextInbox inbox;
  EXPECT_EQ(inbox.add({"a", false}).value(), std::nullopt);
  EXPECT_EQ(inbox.add({"b", false}).value(), std::nullopt);
  EXPECT_EQ(inbox.add({"c", true}).value(), "abc");
  EXPECT_EQ(inbox.add({"", true}).value(), "");
  EXPECT_EQ(inbox.add({"d", true}).value(), "d");
}

TEST(TextInboxTest, LimitsEachText) {
  TextInbox inbox(4);
  EXPECT_EQ(inbox.add({"abcd", true}).value(), "abcd");
  EXPECT_EQ(inbox.add({"abc", false}).value(), std::nullopt);
  const auto text = inbox.add({"de", false});
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().kind, ErrorKind::kProtocol);
  EXPECT_EQ(text.error().message, "it sends a text of more than 4 bytes");
}

}  // namespace
}  // namespace distrun
