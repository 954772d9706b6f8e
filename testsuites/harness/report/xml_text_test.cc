#include "testsuites/harness/report/xml_text.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

using namespace std::string_view_literals;

TEST(XmlTextTest, ValidTextIsUnchanged) {
  const auto text = "a\tb\r\n <&> \u00e9 \u20ac \U0001F600 \uD7FF \uE000 \uFFFD \U0010FFFF ~"sv;
  EXPECT_EQ(xml_text(text), text);
  EXPECT_EQ(xml_text(""), "");
}

TEST(XmlTextTest, ReplacesControlCharacters) {
  EXPECT_EQ(xml_text("\x1b[31m\0|\x08|\x0b|\x1f"sv), "\uFFFD[31m\uFFFD|\uFFFD|\uFFFD|\uFFFD");
}

TEST(XmlTextTest, ReplacesEachInvalidByte) {
  EXPECT_EQ(xml_text("\xFF|\x80|\xF8"), "\uFFFD|\uFFFD|\uFFFD");
  EXPECT_EQ(xml_text("caf\xC3"), "caf\uFFFD") << "cut off";
  EXPECT_EQ(xml_text("\xE2\x82|"), "\uFFFD\uFFFD|") << "cut off";
  EXPECT_EQ(xml_text("\xC0\x80|"), "\uFFFD\uFFFD|") << "longer than it need be";
  EXPECT_EQ(xml_text("\xE0\x80\xBC|"), "\uFFFD\uFFFD\uFFFD|") << "longer than it need be";
  EXPECT_EQ(xml_text("\xED\xA0\x80|"), "\uFFFD\uFFFD\uFFFD|") << "half of a surrogate pair";
  EXPECT_EQ(xml_text("\xEF\xBF\xBE|"), "\uFFFD\uFFFD\uFFFD|") << "U+FFFE";
  EXPECT_EQ(xml_text("\xF4\x90\x80\x80|"), "\uFFFD\uFFFD\uFFFD\uFFFD|") << "beyond U+10FFFF";
}

}  // namespace
}  // namespace distrun
