#include "evidence/flight/pickle.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace distrun {
namespace {

using namespace std::string_view_literals;
using nlohmann::json;

json read(std::string_view bytes) {
  const auto value = read_pickle(bytes);
  return value ? *value : json("error: " + value.error().message);
}

TEST(PickleTest, ReadsNumbers) {
  EXPECT_EQ(read("\x80\x02K\x07."sv), 7);
  EXPECT_EQ(read("\x80\x02M\x01\x02."sv), 0x201);
  EXPECT_EQ(read("\x80\x02J\xff\xff\xff\xff."sv), -1);
  EXPECT_EQ(read("\x80\x02\x8a\x08\x01\x00\x00\x00\x00\x00\x00\x40."sv),
            (std::int64_t{1} << 62) + 1);
  EXPECT_EQ(read("\x80\x02\x8a\x02\x00\x80."sv), -32768);
  EXPECT_EQ(read("\x80\x02\x8a\x00."sv), 0);
  EXPECT_EQ(read("\x80\x02G\x3f\xf8\x00\x00\x00\x00\x00\x00."sv), 1.5);
}

TEST(PickleTest, ReadsNoneAndBools) {
  EXPECT_EQ(read("\x80\x02N."sv), nullptr);
  EXPECT_EQ(read("\x80\x02\x88."sv), true);
  EXPECT_EQ(read("\x80\x02\x89."sv), false);
}

TEST(PickleTest, ReadsWhatLibTorchWrites) {
  // {"a": [1, {"b": "a"}], "t": (3, 4)}
  EXPECT_EQ(read("\x80\x02}(X\x01\x00\x00\x00"
                 "aq\x00](K\x01}(X\x01\x00\x00\x00"
                 "bq\x01h\x00ueX\x01\x00\x00\x00tq\x02(K\x03K\x04tu."sv),
            json::parse(R"({"a": [1, {"b": "a"}], "t": [3, 4]})"));
}

TEST(PickleTest, ReadsWhatPythonWrites) {
  // pickle.dumps({"a": [1, "a"], "t": (3,)}, 4)
  EXPECT_EQ(read("\x80\x04\x95\x1b\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01"
                 "a\x94]\x94(K\x01h\x01\x65\x8c\x01t\x94K\x03\x85\x94u."sv),
            json::parse(R"({"a": [1, "a"], "t": [3]})"));
}

TEST(PickleTest, AListThatLibTorchUsesTwiceHasItsValuesInBothPlaces) {
  EXPECT_EQ(read("\x80\x02](](K\x01\x65q\x00h\x00\x65."sv), json::parse("[[1], [1]]"));
}

TEST(PickleTest, RefusesAListThatGrowsAfterItsFirstUse) {
  // a = [1]; pickle.dumps([a, a], 2)
  EXPECT_EQ(read("\x80\x02]q\x00(]q\x01K\x01\x61h\x01\x65."sv),
            "error: not a pickle of plain values: it uses a container twice that grows in between");
}

TEST(PickleTest, RefusesListsThatDoubleEachOther) {
  std::string bytes = "\x80\x02](K\x01\x65q";
  bytes += '\0';
  for (char slot = 0; slot < 30; ++slot) {  // [last, last]
    bytes += std::string("](h") + slot + 'h' + slot + "eq" + static_cast<char>(slot + 1);
  }
  EXPECT_EQ(read(bytes + '.'), "error: not a pickle of plain values: it is too large");
}

TEST(PickleTest, ALongListTakesLinearTime) {
  std::string bytes = "\x80\x02]q";
  bytes += '\0';
  for (int i = 0; i < 200'000; ++i) bytes += "K\x01\x61";
  EXPECT_EQ(read(bytes + '.').size(), 200'000U);
}

TEST(PickleTest, RefusesWhatIsNestedTooDeeply) {
  const auto nested = [](int depth) {
    return "\x80\x02]" + std::string(static_cast<std::size_t>(depth), ']') +
           std::string(static_cast<std::size_t>(depth), 'a') + '.';
  };
  EXPECT_TRUE(read_pickle(nested(20)));
  EXPECT_EQ(read(nested(2'000'000)),
            "error: not a pickle of plain values: it is nested too deeply");
}

TEST(PickleTest, RefusesWhatGrowsTooLarge) {
  const std::string text(std::size_t{1} << 20, 'x');
  std::string bytes = "\x80\x02(X";
  bytes += std::string("\0\0\x10\0", 4) + text + 'q' + '\0';
  for (int i = 0; i < 1'000; ++i) bytes += std::string("h\0", 2);
  EXPECT_EQ(read(bytes + "t."), "error: not a pickle of plain values: it is too large");
}

TEST(PickleTest, RefusesWhatIsNotWhole) {
  const std::string_view whole =
      "\x80\x02}(X\x01\x00\x00\x00"
      "aq\x00](K\x01K\x02\x65u."sv;
  ASSERT_TRUE(read_pickle(whole));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(read_pickle(whole.substr(0, size))) << size;
  }
}

TEST(PickleTest, RefusesWhatPlainValuesDoNotNeed) {
  EXPECT_EQ(read("cos\nsystem\n(X\x01\x00\x00\x00xtR."sv),
            "error: not a pickle of plain values: opcode 0x63");
  EXPECT_EQ(read("\x80\x02}(K\x01K\x02u."sv),
            "error: not a pickle of plain values: a key is not a string");
  EXPECT_EQ(read("\x80\x02}(X\x01\x00\x00\x00xu."sv),
            "error: not a pickle of plain values: a key has no value");
  EXPECT_EQ(read("\x80\x02u."sv), "error: not a pickle of plain values: a mark is missing");
  EXPECT_EQ(read("\x80\x02h\x05."sv), "error: not a pickle of plain values: a value is missing");
  EXPECT_EQ(read("\x80\x02K\x01\x61."sv), "error: not a pickle of plain values: no container");
  EXPECT_EQ(read("\x80\x02."sv), "error: not a pickle of plain values: it has no value");
  EXPECT_EQ(read("\x80\x02\x8a\x09"
                 "123456789."sv),
            "error: not a pickle of plain values: a number of more than 8 bytes");
}

}  // namespace
}  // namespace distrun
