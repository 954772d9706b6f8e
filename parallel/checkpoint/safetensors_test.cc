#include "parallel/checkpoint/safetensors.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string with_length(const std::string& json) {
  std::string whole(8, '\0');
  whole[0] = static_cast<char>(json.size() & 0xFF);
  whole[1] = static_cast<char>(json.size() >> 8);
  return whole + json;
}

std::string problem_with(const std::string& json, std::uint64_t data = 1000) {
  const std::string header = with_length(json);
  const auto parsed = parse_safetensors_header(header, header.size() + data);
  return parsed ? "none" : parsed.error().message;
}

TEST(SafetensorsTest, EntriesWithLargeElementsComeFirstAndAreAligned) {
  std::vector<SafetensorsEntry> entries = {{.name = "b", .dtype = at::kByte, .box = {{0}, {3}}},
                                           {.name = "h", .dtype = at::kHalf, .box = {{}, {}}},
                                           {.name = "d", .dtype = at::kDouble, .box = {{0}, {2}}}};
  EXPECT_EQ(place_entries(entries), 16 + 2 + 3);
  EXPECT_EQ(entries[0].name, "d");
  EXPECT_EQ(entries[1].begin, 16);
  EXPECT_EQ(entries[2].begin, 18);
  EXPECT_EQ(entries[2].bytes, 3);
}

TEST(SafetensorsTest, ParsesWhatItHasWritten) {
  std::vector<SafetensorsEntry> entries = {
      {.name = "net.weight", .dtype = at::kBFloat16, .box = {{2, 0}, {3, 4}}},
      {.name = "empty", .dtype = at::kFloat, .box = {{0, 0}, {0, 4}}},
      {.name = "step", .dtype = at::kLong, .box = {}}};
  const std::uint64_t bytes = place_entries(entries);
  const std::string header = safetensors_header(entries);
  EXPECT_EQ(header.size() % 8, 0);
  EXPECT_EQ(safetensors_header_size(header.substr(0, 8), header.size() + bytes).value(),
            header.size());
  const auto parsed = parse_safetensors_header(header, header.size() + bytes).value();
  EXPECT_EQ(parsed.data_begin, header.size());
  ASSERT_THAT(parsed.entries, SizeIs(3));
  for (const SafetensorsEntry& entry : parsed.entries) {
    const auto same = std::find_if(entries.begin(), entries.end(),
                                   [&](const auto& one) { return one.name == entry.name; });
    ASSERT_NE(same, entries.end());
    EXPECT_EQ(entry.dtype, same->dtype);
    EXPECT_EQ(entry.box, same->box);
    EXPECT_EQ(entry.begin, same->begin);
    EXPECT_EQ(entry.bytes, same->bytes);
  }
}

// As other programs write it.
TEST(SafetensorsTest, AnEntryWithoutOffsetsIsAWholeTensor) {
  const std::string header =
      with_length(R"({"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}})");
  const auto parsed = parse_safetensors_header(header, header.size() + 24).value();
  EXPECT_EQ(parsed.entries[0].box, (Box{{0, 0}, {2, 3}}));
}

TEST(SafetensorsTest, NamesWhatIsWrongWithAnEntry) {
  const auto entry = [](const std::string& fields) { return R"({"a": {)" + fields + "}}"; };
  EXPECT_THAT(problem_with("{"), HasSubstr("the header: "));
  EXPECT_THAT(problem_with(entry(R"("dtype": "F32")")), HasSubstr("'a': "));
  EXPECT_EQ(problem_with(entry(R"("dtype": "Q9", "shape": [1], "data_offsets": [0, 1])")), "none");
  EXPECT_EQ(problem_with(entry(R"("dtype": "F32", "shape": [2], "data_offsets": [0, 4])")),
            "'a': its data does not have the size of its shape");
  EXPECT_EQ(problem_with(entry(R"("dtype": "F32", "shape": [1], "data_offsets": [4, 0])")),
            "'a': its data ends before it begins");
  EXPECT_EQ(problem_with(entry(R"("dtype": "F32", "shape": [-1], "data_offsets": [0, 4])")),
            "'a': a size or an offset is negative");
  EXPECT_EQ(problem_with(entry(R"("dtype": "F32", "shape": [4294967296, 4294967296, 4],
                                  "data_offsets": [0, 4])")),
            "'a': its shape is too large");
  const std::string good = entry(R"("dtype": "F32", "shape": [1], "data_offsets": [8, 12])");
  EXPECT_EQ(problem_with(good, 12), "none");
  EXPECT_EQ(problem_with(good, 11), "'a': its data is not in the file");
  EXPECT_EQ(problem_with(R"({"__metadata__": {"DCP_SHARDING_INFO":
                             "{\"a\": {\"saved_offsets\": [0, 0]}}"},
                             "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})"),
            "'a': its offsets do not fit its shape");
}

TEST(SafetensorsTest, AFileThatIsTooShortHasNoHeader) {
  EXPECT_EQ(safetensors_header_size("1234567", 7).error().message,
            "it is too short for a safetensors file");
  EXPECT_EQ(safetensors_header_size(with_length(std::string(100, ' ')), 107).error().message,
            "it is not a safetensors file, or its end is missing");
  EXPECT_FALSE(safetensors_header_size(std::string(8, '\xFF'), 1000));
}

}  // namespace
}  // namespace distrun::internal
