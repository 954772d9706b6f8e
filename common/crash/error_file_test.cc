#include "common/crash/error_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/test/folder.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;

class ErrorFileTest : public ::testing::Test {
 protected:
  void put(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  static std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string failure() const {
    const auto report = read_error_file(path_);
    return report ? "none" : report.error().message;
  }

  testing::Folder temporary_;
  const std::string folder_ = temporary_.path();
  std::string path_ = folder_ + "/error.json";
};

TEST_F(ErrorFileTest, ReadsWhatPythonsRecordWrites) {
  put(R"({"message": {"message": "ValueError: no \u00e4",
          "extraInfo": {"py_callstack": "Traceback\n  x\n", "timestamp": "1735689600"}}})");
  const auto report = read_error_file(path_).value().value();
  EXPECT_EQ(report.message, "ValueError: no ä");
  EXPECT_EQ(report.callstack, "Traceback\n  x\n");
  EXPECT_EQ(report.timestamp, 1735689600);
  EXPECT_EQ(report.error_code, std::nullopt);
  EXPECT_EQ(report.rank, std::nullopt);
}

TEST_F(ErrorFileTest, ReadsAPlainMessage) {
  const auto report = parse_error_report(R"({"message": "no disk", "timestamp": 17})").value();
  EXPECT_EQ(report.message, "no disk");
  EXPECT_EQ(report.timestamp, 17);
  EXPECT_EQ(parse_error_report(R"({"message": "no disk"})").value().timestamp, std::nullopt);
}

TEST_F(ErrorFileTest, IgnoresFieldsThatAreMissingOrOfAnotherType) {
  for (const char* json :
       {R"({"message": {"message": "m"}})", R"({"message": {"message": "m", "extraInfo": 3}})",
        R"({"message": {"message": "m", "extraInfo": {"py_callstack": [], "timestamp": "x1"}}})",
        R"({"message": {"message": "m", "errorCode": 99999999999, "extraInfo": null}})"}) {
    const auto report = parse_error_report(json).value();
    EXPECT_EQ(report.message, "m");
    EXPECT_EQ(report.callstack, "");
    EXPECT_EQ(report.timestamp, std::nullopt);
    EXPECT_EQ(report.error_code, std::nullopt);
  }
}

TEST_F(ErrorFileTest, ReadsWhatItWrites) {
  put("something longer than what replaces it, which must be gone" + std::string(9999, 'x'));
  const ErrorReport written{"E: \"quoted\"\n\tä", "#0 f (x)\n", 1735689600, 3, -11};
  ASSERT_TRUE(write_error_file(path_, written));
  const auto report = read_error_file(path_).value().value();
  EXPECT_EQ(report.message, written.message);
  EXPECT_EQ(report.callstack, written.callstack);
  EXPECT_EQ(report.timestamp, written.timestamp);
  EXPECT_EQ(report.rank, 3);
  EXPECT_EQ(report.error_code, -11);
}

// Python reads int(message["extraInfo"]["timestamp"]) and .get("py_callstack").
TEST_F(ErrorFileTest, WritesTorchsFormat) {
  EXPECT_EQ(
      to_json({.message = "m", .callstack = "c", .timestamp = 5, .rank = 1}),
      R"({"message":{"extraInfo":{"py_callstack":"m\nc","rank":1,"timestamp":"5"},"message":"m"}})");
}

// torchrun prints the callstack instead of the message.
TEST_F(ErrorFileTest, CallstackStartsWithTheMessageOnlyInTheFile) {
  for (const std::string message : {"E: x", "E:\n  two lines", ""}) {
    const std::string json = to_json({.message = message, .callstack = "#0 f\n"});
    EXPECT_EQ(parse_error_report(json).value().callstack, "#0 f\n");
    EXPECT_EQ(parse_error_report(to_json({.message = message})).value().callstack, "");
  }
  EXPECT_THAT(to_json({.message = "E: x"}), HasSubstr(R"("py_callstack":"E: x\n")"));
}

TEST_F(ErrorFileTest, LongMessageIsCutInTheCallstack) {
  std::string message = "x";
  while (message.size() < 10'000) message += "é";
  const ErrorReport report{.message = message, .callstack = "#0 f\n"};
  EXPECT_LT(to_json(report).size(), 6 * 5'000u + 6 * 1'100u);
  EXPECT_EQ(parse_error_report(to_json(report)).value().callstack, "#0 f\n");
}

TEST_F(ErrorFileTest, ReplacesBytesThatAreNotText) {
  EXPECT_EQ(parse_error_report(to_json({.message = "a\xFF b"})).value().message, "a\uFFFD b");
}

TEST_F(ErrorFileTest, ReplacesLoneSurrogates) {
  const auto message = [](const std::string& text) {
    return parse_error_report(R"({"message": ")" + text + "\"}").value().message;
  };
  EXPECT_EQ(message(R"(a\udcffb)"), "a\uFFFDb");
  EXPECT_EQ(message(R"(\ud83d\ude00)"), "\U0001F600");
  EXPECT_EQ(message(R"(\ud83dx)"), "\uFFFDx");
  EXPECT_EQ(message(R"(\\udcff)"), "\\udcff") << "not an escape";
  EXPECT_EQ(message(R"(\ud83d\ud83d\ude00)"), "\uFFFD\U0001F600");
}

TEST_F(ErrorFileTest, MissingOrEmptyFileHasNoReport) {
  EXPECT_EQ(read_error_file(path_).value(), std::nullopt);
  put("");
  EXPECT_EQ(read_error_file(path_).value(), std::nullopt);
}

TEST_F(ErrorFileTest, MalformedFileIsAnErrorThatNamesTheFile) {
  const std::string whole = to_json({.message = "m", .callstack = "c", .timestamp = 5, .rank = 1});
  for (std::size_t size = 1; size < whole.size(); ++size) {
    put(whole.substr(0, size));
    EXPECT_THAT(failure(), HasSubstr(path_ + ": it is not JSON")) << size;
  }
  for (const std::string text : {"[]", "3", "\"message\"", "{}", R"({"message": 3})"}) {
    put(text);
    EXPECT_THAT(failure(), HasSubstr(path_ + ": it")) << text;
  }
  for (const std::string& text : {std::string(100, '\0'),
                                  std::string("\x7F"
                                              "ELF\xFF\xFE"),
                                  whole + whole}) {
    put(text);
    EXPECT_THAT(failure(), HasSubstr(path_ + ": it is not JSON"));
  }
}

TEST_F(ErrorFileTest, RefusesAHugeFile) {
  put(R"({"message": ")" + std::string(kErrorFileBytesMax, 'x') + "\"}");
  EXPECT_THAT(failure(), HasSubstr("it is longer than 1 MiB"));
}

TEST_F(ErrorFileTest, WritesReadableFilesForTextsOfAnyLength) {
  for (const std::string unit : {"x", "\x01", "é", "\U0001F600", "\xFF", "\""}) {
    std::string text;
    while (text.size() < 2 * kErrorFileBytesMax) text += unit;
    ASSERT_TRUE(write_error_file(path_, {.message = text, .callstack = text}));
    const auto report = read_error_file(path_);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_GT((*report)->message.size(), 60'000u);
    EXPECT_TRUE((*report)->message.ends_with("…"));
    EXPECT_TRUE((*report)->callstack.ends_with("…"));
  }
}

TEST_F(ErrorFileTest, RefusesDeepNesting) {
  const std::size_t levels = kErrorFileBytesMax / 2 - 100;
  put(R"({"message": )" + std::string(levels, '[') + std::string(levels, ']') + "}");
  EXPECT_THAT(failure(), HasSubstr("nested too deeply"));
  EXPECT_FALSE(copy_error_file(path_, folder_ + "/copy", 1));
}

TEST_F(ErrorFileTest, RefusesPipesAndFoldersWithoutBlocking) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(failure(), HasSubstr("not a regular file"));
  EXPECT_FALSE(write_error_file(path_, {.message = "m"}));
  path_ = folder_;
  EXPECT_THAT(failure(), HasSubstr("not a regular file"));
}

TEST_F(ErrorFileTest, CopyKeepsEverythingAndAddsTheErrorCode) {
  put(R"({"message": {"message": "m", "extraInfo": {"timestamp": "5", "of_mine": [1]}}, "more": 2})");
  ASSERT_TRUE(copy_error_file(path_, folder_ + "/copy", -11));
  EXPECT_EQ(
      text_of(folder_ + "/copy"),
      R"({"message":{"errorCode":-11,"extraInfo":{"of_mine":[1],"timestamp":"5"},"message":"m"},"more":2})");
}

TEST_F(ErrorFileTest, CopyOfAPlainMessageStaysPlain) {
  put(R"({"message": "m", "timestamp": 5})");
  ASSERT_TRUE(copy_error_file(path_, folder_ + "/copy", 3));
  EXPECT_EQ(text_of(folder_ + "/copy"), R"({"message":"m","timestamp":5})");
}

TEST_F(ErrorFileTest, CopyOfAMissingFileMakesNoFile) {
  ASSERT_TRUE(copy_error_file(path_, folder_ + "/copy", 3));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/copy"));
}

TEST_F(ErrorFileTest, CopyErrorNamesTheFileThatCannotBeWritten) {
  put(R"({"message": "m"})");
  const std::string to = folder_ + "/no/such/folder";
  EXPECT_THAT(copy_error_file(path_, to, 3).error().message,
              HasSubstr("write " + to + ": no such"));
}

}  // namespace
}  // namespace distrun
