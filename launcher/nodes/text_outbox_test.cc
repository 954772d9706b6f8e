#include "launcher/nodes/text_outbox.h"

#include <vector>

#include <gtest/gtest.h>

namespace distrun {
namespace {

// What arrives: each message fits, is read back, and is put together with the others.
std::vector<std::string> sent_by(TextOutbox outbox) {
  std::vector<std::string> texts(1);
  while (!outbox.is_empty()) {
    std::string line = to_line(outbox.next());
    EXPECT_LE(line.size(), kNodeMessageBytesMax);
    line.pop_back();
    const auto message = std::get<NodeText>(node_message_from(line).value());
    texts.back() += message.piece;
    if (message.is_last) texts.emplace_back();
  }
  EXPECT_EQ(texts.back(), "") << "the last text has no end";
  texts.pop_back();
  return texts;
}

TEST(TextOutboxTest, SendsTextsWholeAndInOrder) {
  std::string quotes;
  for (int i = 0; i < 100'000; ++i) quotes += R"("\)";
  // JSON writes six bytes for \x01.
  const std::vector<std::string> texts = {"{}", quotes, "", std::string(100'000, '\x01'),
                                          std::string(300'000, 'x')};
  TextOutbox outbox;
  for (const std::string& text : texts) outbox.add(text);
  EXPECT_EQ(sent_by(outbox), texts);
}

TEST(TextOutboxTest, DoesNotCutWithinACharacter) {
  for (const char* begin : {"", "a", "ab"}) {
    std::string text = begin;
    for (int i = 0; i < 50'000; ++i) text += "€";
    TextOutbox outbox;
    outbox.add(text);
    EXPECT_EQ(sent_by(outbox), std::vector{text});
  }
}

TEST(TextOutboxTest, SendsBytesThatAreNotUtf8InMessagesOfAllowedSize) {
  TextOutbox outbox;
  outbox.add(std::string(100'000, '\xFF'));
  EXPECT_EQ(sent_by(outbox).size(), 1U);
  outbox = {};
  outbox.add(std::string(100'000, '\x80'));
  EXPECT_EQ(sent_by(outbox).size(), 1U);
}

TEST(TextOutboxTest, CountsTheBytesThatWait) {
  TextOutbox outbox;
  EXPECT_TRUE(outbox.is_empty());
  outbox.add(std::string(100'000, 'x'));
  outbox.add("{}");
  EXPECT_EQ(outbox.bytes(), 100'002U);
  const NodeText first = outbox.next();
  EXPECT_FALSE(first.is_last);
  EXPECT_EQ(outbox.bytes(), 100'002U - first.piece.size());
  while (!outbox.is_empty()) outbox.next();
  EXPECT_EQ(outbox.bytes(), 0U);
}

}  // namespace
}  // namespace distrun
